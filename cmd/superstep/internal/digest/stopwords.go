package digest

// stopWords are the function words of some languages: too common to say what a
// text is about, and just for that a sign of its language. The English list is
// the closed-class part of the one in C. J. van Rijsbergen, "Information
// Retrieval" (1979), chapter 2, with contractions, small numbers and the verbs
// that go with everything; the others are the most
// frequent closed-class words.
var stopWords = map[string]map[string]bool{
	"en": set(`a about above across after again against all almost alone along already also although always am among an
and another any anyone anything are aren't around as at be because been before being below between both but by can
can't cannot could couldn't did didn't do does doesn't doing don't done down during each either else enough even ever
every everyone everything few for from further had hadn't has hasn't have haven't having he he'd he'll her here hers
herself him himself his how however i i'd i'll i'm i've if in into is isn't it it'll itself its just less let many may
me might more most much must mustn't my myself neither no nobody none nor not nothing now of off often on once one only
onto or other others our ours ourselves out over own per perhaps quite rather really same shall she she'd she'll should
shouldn't since so some someone something somewhere still such than that the their theirs them themselves then there
therefore these they they'd they'll they're they've this those though through thus to together too toward towards under
until up upon us use used uses using very via was wasn't we we'd we'll we're we've were weren't what whatever when
where whether which while who whoever whole whom whose why will with within without won't would wouldn't yet you you'd
you'll you're you've your yours yourself first second last next two three four five six seven eight nine ten new see sees
seen go goes going went gone get gets getting got make makes making made take takes taking took taken say says said let
lets way back put puts keep keeps kept know knows known want wants need needs needed`),
	"de": set(`aber alle als also am an auch auf aus bei beim bis da damit dann das dass dein dem den denn der des dich
die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwa für
gegen haben hat hatte hier ich ihm ihn ihr ihre ihrem ihren ihrer im in ist ja jede jeden jeder jedes jetzt kann kein
keine keinen können man mehr mein mit muss müssen nach nicht noch nur ob oder ohne schon sehr sein seine sich sie sind
so soll sowie über um und uns unser unter vom von vor war waren was weil wenn wer werden wie wird wir wo wurde wurden
zu zum zur zwischen`),
	"fr": set(`à alors au aucun aussi autre aux avant avec avoir c'est ce cela ces cet cette ceux chaque comme dans de des
donc dont du elle elles en encore entre est et être eu fait font il ils je jusque la le les leur leurs lors lui mais
me même mes moins mon ne ni non nos notre nous on ont ou où par pas peu peut plus pour qu'il qu'elle qu'on quand que
quel quelle qui sa sans se ses si son sont sous sur ta tes toi ton tous tout toute toutes très tu un une vos votre
vous y était été`),
	"es": set(`a al algo ante antes así aunque cada como con contra cual cuando de del desde donde dos el él ella ellas
ellos en entre era es esa ese eso esta está están este esto estos fue ha había han hasta hay la las le les lo los más
me mi mientras muy nada ni no nos nosotros o otra otro otros para pero poco por porque que qué quien se sea ser si sí
sin sobre son su sus también tanto te tiene todo todos tu un una uno unos y ya yo`),
}

// languages are the keys of stopWords, in the order that decides ties.
var languages = []string{"en", "de", "fr", "es"}

// guessLanguage returns the language whose function words make up the largest
// part of counts, if that is at least one word in ten, else "". It is the
// "short words" method of G. Grefenstette, "Comparing two language
// identification schemes", JADT 1995.
func guessLanguage(counts map[string]int) string {
	total := 0
	hits := make(map[string]int)
	for w, n := range counts {
		total += n
		for _, l := range languages {
			if stopWords[l][w] {
				hits[l] += n
			}
		}
	}
	best := ""
	for _, l := range languages {
		if hits[l] > hits[best] {
			best = l
		}
	}
	if hits[best]*10 < total || hits[best] < 3 {
		return ""
	}
	return best
}

// isStop reports whether term is a function word of English, which is common in
// texts of any language, or of lang.
func isStop(term, lang string) bool {
	return stopWords["en"][term] || lang != "" && stopWords[lang][term]
}
