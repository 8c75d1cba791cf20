package language

import (
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/currency"
)

// Formats are the names of the formats that [Format] knows.
var Formats = []string{"iban", "digits", "email", "phone", "url", "date", "time", "currency", "uuid"}

// Format checks a text against a format and returns its canonical form. The reason
// says what is wrong with a text that is refused.
func Format(format, text string) (canonical, reason string) {
	s := strings.TrimSpace(text)
	switch format {
	case "iban":
		s = strings.ToUpper(compact(s, ""))
		if !validIBAN(s) {
			return "", "it is not a valid IBAN"
		}
		return s, ""
	case "digits":
		if s = compact(s, ""); !allDigits(s) {
			return "", "it has to consist of digits"
		}
		return s, ""
	case "email":
		a, err := mail.ParseAddress(s)
		if err != nil || a.Address != s {
			return "", "it is not an e-mail address"
		}
		at := strings.LastIndexByte(s, '@')
		if !strings.Contains(s[at:], ".") {
			return "", "it is not an e-mail address"
		}
		return s[:at] + strings.ToLower(s[at:]), ""
	case "phone":
		plus := strings.HasPrefix(s, "+")
		d := compact(strings.TrimPrefix(s, "+"), "-/().")
		if !allDigits(d) || len(d) < 5 || len(d) > 15 {
			return "", "it is not a telephone number"
		}
		if plus {
			return "+" + d, ""
		}
		return d, ""
	case "url":
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", "it is not a web address"
		}
		return u.String(), ""
	case "date":
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return "", "it is not a date like 2024-12-31"
		}
		return s, ""
	case "time":
		if _, err := time.Parse("15:04", s); err != nil {
			return "", "it is not a time like 18:30"
		}
		return s, ""
	case "currency":
		s = strings.ToUpper(s)
		if _, err := currency.ParseISO(s); err != nil || len(s) != 3 {
			return "", "it is not a currency like EUR"
		}
		return s, ""
	case "uuid":
		s = strings.ToLower(s)
		if !validUUID(s) {
			return "", "it is not a UUID"
		}
		return s, ""
	}
	return "", "there is no format " + strconv.Quote(format)
}

// compact returns s without blanks and the signs.
func compact(s, signs string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '\t', r == '\u00a0', r == '\u202f', strings.ContainsRune(signs, r):
			return -1
		}
		return r
	}, s)
}

func validUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// ibanLengths are the lengths of IBANs by country, from the registry.
var ibanLengths = func() map[string]int {
	const list = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 " +
		"EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 " +
		"JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 " +
		"OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 " +
		"TR26 UA29 VA22 VG24 XK20 YE30"
	m := map[string]int{}
	for _, e := range strings.Fields(list) {
		m[e[:2]] = int(e[2]-'0')*10 + int(e[3]-'0')
	}
	return m
}()

func validIBAN(s string) bool {
	if len(s) < 5 || ibanLengths[s[:2]] != len(s) {
		return false
	}
	rest := 0
	for _, c := range slices.Concat([]byte(s[4:]), []byte(s[:4])) {
		switch {
		case c >= '0' && c <= '9':
			rest = (rest*10 + int(c-'0')) % 97
		case c >= 'A' && c <= 'Z':
			rest = (rest*100 + int(c-'A') + 10) % 97
		default:
			return false
		}
	}
	return rest == 1
}
