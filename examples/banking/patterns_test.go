package banking_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
)

// Conversations with the bank without a model, word for word: "> " is the customer, what
// follows are parts of the reply, "!" those that it doesn't have.
var talks = map[string]string{
	"a transfer in one sentence, corrected, then sent": `
> Please send 100 euros to Alice Miller
What is the recipient's IBAN
> what is an IBAN?
account number used between banks
What is the recipient's IBAN
> GB82 WEST 1234 5698 7654 32
What shall I print
> Rent for March
Which of your accounts
> from savings please
To: Alice Miller
Amount: 100.00 EUR
Purpose: Rent for March
From: savings
> no, make it 250
Updated amount to 250.
Amount: 250.00 EUR
> yes, send it
number TRF-`,
	"the balance while a transfer waits": `
> I want to transfer money
Who is the money for
> what's my savings balance?
15230.00 EUR
Who is the money for
> cancel that
Cancelled`,
	"no, then no more": `
> send money to Bob Smith
IBAN
> DE89370400440532013000
How much
> 20
purpose
> Books
Which of your accounts
> checking
Shall I send it
> don't
Cancelled
!TRF-`,
	"a wrong amount is asked again": `
> send 20 euros to Bob Smith
IBAN
> DE89370400440532013000
> Books
> checking
Amount: 20.00
> no, the amount is wrong
How much
> 30
Amount: 30.00`,
	"cards and bills": `
> I lost my credit card
last four digits
> 1234
block the credit card ending in 1234
> yes please
The card is blocked
> I want to pay my water bill
reference number
> INV-2024-12345
City Water
> ok
The bill is paid`,
	"auf Deutsch": `
> Hallo
Guten Tag
> Ich möchte 1.250,50 Euro an Frau Müller überweisen
Wie lautet die IBAN
> DE89 3704 0044 0532 0130 00
Welcher Verwendungszweck
> Miete
Von welchem Ihrer Konten
> Girokonto
An: Frau Müller
Betrag: 1250,50 EUR
Von: Girokonto
> lieber 900
Betrag: 900,00 EUR
> ja, bitte senden
Gesendet
> Wie ist der Kontostand auf dem Sparkonto?
15230,00 EUR
> Meine Kreditkarte wurde gestohlen
letzten vier Ziffern
> Vergiss es
> Stromrechnung bezahlen
Welche Nummer`,
	"a person": `
> can I talk to a human?
passing you to a colleague`,
	"nothing that is known": `
> purple elephants
I know accounts, transfers, cards and bills`,
}

func TestTheBankIsTalkedToWithoutAModel(t *testing.T) {
	p, err := program.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	patterns, err := banking.Patterns()
	if err != nil {
		t.Fatal(err)
	}
	a, err := assistant.New(assistant.Config{Program: p, Actions: code, Understanding: patterns})
	if err != nil {
		t.Fatal(err)
	}
	for name, talk := range talks {
		t.Run(name, func(t *testing.T) {
			var reply dialogue.Reply
			for line := range strings.Lines(strings.TrimSpace(talk)) {
				line = strings.TrimSpace(line)
				text, says := strings.CutPrefix(line, "> ")
				hasnt, not := strings.CutPrefix(line, "!")
				switch {
				case says:
					if reply, err = a.Say(t.Context(), name, dialogue.Message{Text: text}); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
				case not:
					if strings.Contains(reply.Text, hasnt) {
						t.Errorf("%q is in the reply %q", hasnt, reply.Text)
					}
				case !strings.Contains(reply.Text, line):
					t.Errorf("%q is not in the reply %q", line, reply.Text)
				}
			}
		})
	}
}
