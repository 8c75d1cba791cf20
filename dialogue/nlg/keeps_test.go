package nlg_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/nlg"
)

func TestWordsThatKeepWhatIsSaidAreUsed(t *testing.T) {
	for _, x := range []struct {
		tag, original, worded string
		values                []string
	}{
		{"en", "Your checking account holds 3847.52 EUR.", "There are, on your checking account, 3847.52 EUR.", []string{"checking", "3847.52", "EUR"}},
		{"en", "How much shall I send, in euros?", "And how many euros shall I send for you?", nil},
		{"en", "Nothing was sent.", "No money was sent.", nil},
		{"en", "This is not a valid IBAN; please check its length and digits.", "Hm, that isn't a valid IBAN. Please look at its length and digits.", nil},
		{"en", "Sent. The transfer has the number TRF-12AB.", "All done! Your transfer is on its way; it has the number TRF-12AB.", []string{"TRF-12AB"}},
		{"en-GB", "Is there anything else?", "Is there anything else that I can do?", nil},
		{"de", "Auf Ihrem Konto Girokonto sind 1.234,50 EUR.", "Ihr Stand auf dem Konto Girokonto: Es sind 1.234,50 EUR.", []string{"Girokonto", "1.234,50", "EUR"}},
		{"de", "Es wurde nichts gesendet.", "Wir haben kein Geld gesendet.", nil},
		{"fr", "Le virement n'est pas possible.", "Ce virement n'est pas possible, désolé.", nil},
		{"en", "The same.", "The same.", nil},
	} {
		if reason := nlg.Keeps(x.original, x.worded, x.values, x.tag); reason != "" {
			t.Errorf("%q for %q is refused: %s", x.worded, x.original, reason)
		}
	}
}

func TestWordsThatChangeWhatIsSaidAreRefused(t *testing.T) {
	for _, x := range []struct {
		name, tag, original, worded string
		values                      []string
	}{
		{"the signs of a number", "de", "Der Betrag ist 1.234,50 EUR.", "Der Betrag ist 1,234.50 EUR.", nil},
		{"the signs of a value", "de", "Der Betrag ist 1.234,50 EUR.", "Der Betrag ist 1,234.50 EUR.", []string{"1.234,50"}},
		{"a rounded number", "en", "The fee is 1.50 EUR.", "The fee is 1.5 EUR.", []string{"1.50"}},
		{"a longer number", "en", "The fee is 15 EUR.", "The fee is 150 EUR.", []string{"15"}},
		{"a number with another before it", "en", "The fee is 15 EUR.", "The fee is 2,15 EUR.", []string{"15"}},
		{"a sign", "en", "Your balance is 15 EUR.", "Your balance is -15 EUR.", []string{"15"}},
		{"a sign of a fixed number", "en", "The fee is 15 percent.", "The fee is -15 percent.", nil},
		{"a missing number", "en", "The code has exactly 6 digits.", "The code has exactly the right digits.", nil},
		{"a new number", "en", "The code has expired.", "The code has expired after 10 minutes.", nil},
		{"a new number word", "en", "The code has expired.", "The code has expired after ten tries.", nil},
		{"another number word", "en", "A name needs at least two letters.", "A name needs at least three letters.", nil},
		{"swapped numbers", "en", "It takes 5 to 10 days.", "It takes 10 to 5 days.", nil},
		{"swapped number words", "en", "It takes five to ten days.", "It takes ten to five days.", nil},
		{"swapped days", "en", "We are open from Monday to Friday.", "We are open from Friday to Monday.", nil},
		{"swapped values", "en", "I send 50 from checking to savings.", "I send 50 from savings to checking.", []string{"50", "checking", "savings"}},
		{"swapped parts of values", "en", "I send 50 from checking to savings.", "I send 50 to checking from savings.", []string{"50", "checking", "savings"}},
		{"a missing value", "en", "Shall I call Ann Lee?", "Shall I call Ann?", []string{"Ann Lee"}},
		{"a value inside of another word", "en", "Shall I call Ann?", "Shall I call Anna?", []string{"Ann"}},
		{"another currency", "en", "The fee is 5 €.", "The fee is 5 $.", []string{"5"}},
		{"another currency's code", "en", "The fee is 5 EUR.", "The fee is 5 USD.", []string{"5"}},
		{"a percentage", "en", "The rate is 5 %.", "The rate is 5.", nil},
		{"a date in another form", "en", "It is due on 2024-12-31.", "It is due on 31.12.2024.", nil},
		{"another date", "en", "It is due on Monday.", "It is due on Tuesday.", nil},
		{"a new date", "en", "We send the card.", "We send the card tomorrow.", nil},
		{"a lost not", "en", "The card is not blocked.", "The card is blocked.", nil},
		{"a new not", "en", "The card is blocked.", "The card isn't blocked.", nil},
		{"ein verlorenes nicht", "de", "Die Karte ist nicht gesperrt.", "Die Karte ist gesperrt.", nil},
		{"ein neues kein", "de", "Es wurde Geld gesendet.", "Es wurde kein Geld gesendet.", nil},
		{"not at another value", "en", "I send it to Ann, not to Bob.", "I send it not to Ann, to Bob.", []string{"Ann", "Bob"}},
		{"une négation perdue", "fr", "Le virement n'est pas parti.", "Le virement est parti.", nil},
		{"a lost only", "en", "I can only send euros.", "I can send euros.", nil},
		{"more for less", "en", "This is more than your limit.", "This is less than your limit.", nil},
		{"a new link", "en", "Please enter the code.", "Please enter the code at https://evil.example/x.", nil},
		{"a new site", "en", "Please enter the code.", "Please enter the code at evil.com now.", nil},
		{"another link", "en", "See https://bank.example/a?x=1.", "See https://bank.example/a?x=2.", nil},
		{"an address of mail", "en", "Write to help@bank.example.", "Write to us.", nil},
		{"a telephone number", "en", "Please wait.", "Please call 0900 123456.", nil},
		{"a lost name", "en", "We work with the Northern Bank.", "We work with a bank.", nil},
		{"a new name", "en", "We work with a bank.", "We work with the Northern Bank.", nil},
		{"a new acronym", "de", "Wie lautet die Nummer?", "Wie lautet die IBAN?", nil},
		{"a new acronym in a compound", "de", "Wie lautet die Nummer?", "Wie lautet die IBAN-Nummer?", nil},
		{"a statement for a question", "en", "Shall I send it?", "I shall send it.", nil},
		{"a question for a statement", "en", "The card is blocked.", "Is the card blocked?", nil},
		{"another language", "en", "The card is blocked and you can order a new card.", "Die Karte ist gesperrt und Sie können eine neue Karte bestellen.", nil},
		{"eine andere Sprache", "de", "Die Karte ist gesperrt.", "The card is blocked.", nil},
		{"another alphabet", "en", "The card is blocked.", "The card is blocked, спасибо.", nil},
		{"something else", "en", "What shall I print as the purpose?", "It is sent. What else do you want?", nil},
		{"etwas anderes", "de", "Welcher Verwendungszweck soll auf die Überweisung?", "Sollen wir die Karte sperren?", nil},
		{"much longer", "en", "Thank you.", "Thank you. " + strings.Repeat("We are so glad to have you with us and we hope to see you. ", 3), nil},
		{"nothing", "en", "Thank you.", " ", nil},
		{"markup", "en", "Thank you.", "**Thank you.**", nil},
		{"a placeholder", "en", "Thank you.", "Thank you, {name}.", nil},
		{"values that aren't the text's", "en", "Thank you.", "Many thanks.", []string{"500"}},
		{"a language that isn't known", "pl", "Karta jest zablokowana.", "Karta została zablokowana.", nil},
		{"no language", "??", "Thank you.", "Thanks.", nil},
	} {
		if reason := nlg.Keeps(x.original, x.worded, x.values, x.tag); reason == "" {
			t.Errorf("%s: %q is taken for %q", x.name, x.worded, x.original)
		}
	}
}

// Whatever a model makes of a text: what it drops, doubles or exchanges is seen.
func FuzzKeeps(f *testing.F) {
	f.Add("Send 5 EUR to Ann?", "Send 5 EUR to Ann?", "5", "en")
	f.Add("", "\xff", "", "de")
	f.Fuzz(func(t *testing.T, original, worded, value, tag string) {
		if nlg.Keeps(original, worded, []string{value}, tag) != "" || original == worded || value == "" {
			return
		}
		if strings.Contains(original, value) && !strings.Contains(worded, value) {
			t.Errorf("%q lost %q in %q", original, value, worded)
		}
	})
}
