package nlg

import "strings"

// set is a set of words.
type set map[string]bool

func setOf(list string) set {
	s := set{}
	for _, w := range strings.Fields(list) {
		s[w] = true
	}
	return s
}

// in returns the words of a text that are in the set, in their order.
func (s set) in(text string) []string {
	var out []string
	for _, w := range split(text) {
		if w = strings.ToLower(strings.ReplaceAll(w, "’", "'")); s[w] {
			out = append(out, w)
		}
	}
	return out
}

// words are those of a language that change what a text says.
type words struct {
	capitals bool   // every noun begins with a capital
	prefix   string // of words behind a negation
	suffix   string // of negated words
	not      set
	numbers  set // one aside, which is an article too
	dates    set
	limits   set
	roles    set // that say which part the value behind them plays
	small    set // the language's commonest ones
}

// negations returns a mark for each negation: "no money" and "nothing" say alike.
func (w *words) negations(text string) []string {
	var out []string
	for _, x := range split(text) {
		x = strings.ToLower(strings.ReplaceAll(x, "’", "'"))
		if w.not[x] || w.prefix != "" && strings.HasPrefix(x, w.prefix) || w.suffix != "" && strings.HasSuffix(x, w.suffix) {
			out = append(out, "not")
		}
	}
	return out
}

var languages = map[string]*words{
	"en": {
		suffix:  "n't",
		not:     setOf("not no never none nothing nobody nowhere neither nor without cannot unable dont cant wont isnt"),
		numbers: setOf("two three four five six seven eight nine ten eleven twelve twenty thirty fifty hundred thousand million billion half double twice dozen first second third quarter both"),
		dates:   setOf("monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november december today tomorrow yesterday tonight week weeks month months year years day days hour hours minute minutes"),
		limits:  setOf("only least most more less fewer before after until till unless except if within always ever maximum minimum free optional must may"),
		roles:   setOf("from to by for over under above below than minus plus since between per of and or up"),
		small:   setOf("the a is are you your i we to and of for in on it that this have has can will with please be shall do what which how not my me our was were been there"),
	},
	"de": {
		capitals: true,
		not:      setOf("nicht kein keine keinen keinem keiner keines nie niemals niemand nichts nirgends weder ohne nein"),
		numbers:  setOf("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig fünfzig hundert tausend million millionen milliarde halb halbe doppelt zweimal dutzend erste ersten zweite zweiten dritte dritten viertel beide beiden"),
		dates:    setOf("montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag januar februar märz april mai juni juli august september oktober november dezember heute morgen gestern übermorgen woche wochen monat monate monaten jahr jahre jahren tag tage tagen stunde stunden minute minuten"),
		limits:   setOf("nur mindestens höchstens maximal minimal mehr weniger vor nach bis außer falls wenn erst innerhalb immer kostenlos müssen muss dürfen darf"),
		roles:    setOf("von vom an auf aus zu zum zur über unter als minus plus seit zwischen pro für und oder gegen"),
		small:    setOf("der die das den dem ein eine einen ist sind sie ihr ihre ihren ihrem ich wir und zu für in auf es haben hat kann können wird werden mit bitte wie was welche welches welchen nicht soll sollen gibt mir uns auch noch von wurde wurden war waren"),
	},
	"es": {
		not:     setOf("no nunca jamás ningún ninguno ninguna nada nadie tampoco sin ni"),
		numbers: setOf("dos tres cuatro cinco seis siete ocho nueve diez once doce veinte treinta cincuenta cien ciento mil millón millones medio media doble docena primero primera segundo segunda tercero tercera cuarto ambos ambas"),
		dates:   setOf("lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre hoy mañana ayer semana semanas mes meses año años día días hora horas minuto minutos"),
		limits:  setOf("solo sólo solamente mínimo máximo más menos antes después hasta salvo excepto si siempre gratis debe deben puede"),
		roles:   setOf("de desde a al para por sobre bajo que menos más entre y o del"),
		small:   setOf("el la los las un una es son su sus usted yo nosotros y de para en que esto esta este tiene ha puede con por favor cómo qué cuál cuánto no se lo le mi"),
	},
	"fr": {
		prefix:  "n'",
		not:     setOf("ne pas jamais aucun aucune rien personne ni sans non"),
		numbers: setOf("deux trois quatre cinq six sept huit neuf dix onze douze vingt trente cinquante cent cents mille million millions moitié demi demie double douzaine premier première deuxième troisième quart"),
		dates:   setOf("lundi mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril mai juin juillet août septembre octobre novembre décembre aujourd'hui demain hier semaine semaines mois an ans année années jour jours heure heures minute minutes"),
		limits:  setOf("seulement uniquement moins plus minimum maximum avant après jusqu'à jusqu'au sauf si toujours gratuit doit doivent peut"),
		roles:   setOf("de du depuis à au pour par sur sous entre et ou des vers"),
		small:   setOf("le la les un une est sont vous votre vos je nous et de pour dans sur ce cette il elle a avez ai peut pouvez avec s'il plaît comment quel quelle que qui pas ne se mon mes du des au"),
	},
	"it": {
		not:     setOf("non no mai nessun nessuno nessuna niente nulla né senza neanche"),
		numbers: setOf("due tre quattro cinque sei sette otto nove dieci undici dodici venti trenta cinquanta cento mille mila milione milioni metà mezzo mezza doppio dozzina primo prima secondo seconda terzo terza quarto entrambi"),
		dates:   setOf("lunedì martedì mercoledì giovedì venerdì sabato domenica gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre oggi domani ieri settimana settimane mese mesi anno anni giorno giorni ora ore minuto minuti"),
		limits:  setOf("solo soltanto almeno massimo minimo più meno prima dopo fino salvo tranne se sempre gratis deve devono può"),
		roles:   setOf("di da dal dalla a al alla per su sul sotto tra fra e o del della"),
		small:   setOf("il lo la i gli le un una è sono lei suo sua suoi io noi e di per in su che questo questa ha può con favore come cosa quale quanto non si mi ci del della al"),
	},
	"nl": {
		not:     setOf("niet geen nooit niemand niets nergens noch zonder nee"),
		numbers: setOf("twee drie vier vijf zes zeven acht negen tien elf twaalf twintig dertig vijftig honderd duizend miljoen miljard half halve dubbel tweemaal dozijn eerste tweede derde kwart beide"),
		dates:   setOf("maandag dinsdag woensdag donderdag vrijdag zaterdag zondag januari februari maart april mei juni juli augustus september oktober november december vandaag morgen gisteren week weken maand maanden jaar jaren dag dagen uur uren minuut minuten"),
		limits:  setOf("alleen slechts minstens hoogstens maximaal minimaal meer minder voor na tot tenzij behalve als binnen altijd gratis moet moeten mag mogen"),
		roles:   setOf("van naar aan op uit over onder dan min plus sinds tussen per en of"),
		small:   setOf("de het een is zijn u uw ik wij we en te voor in op dat dit deze heeft hebt kan kunt zal met alstublieft hoe wat welke niet van mijn ons er bij"),
	},
	"pt": {
		not:     setOf("não nunca jamais nenhum nenhuma nada ninguém nem sem"),
		numbers: setOf("dois duas três quatro cinco seis sete oito nove dez onze doze vinte trinta cinquenta cem cento mil milhão milhões meio meia metade dobro dúzia primeiro primeira segundo segunda terceiro terceira quarto ambos"),
		dates:   setOf("segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro hoje amanhã ontem semana semanas mês meses ano anos dia dias hora horas minuto minutos"),
		limits:  setOf("só somente apenas mínimo máximo mais menos antes depois até salvo exceto se sempre grátis deve devem pode"),
		roles:   setOf("de desde a ao à para por sobre sob que entre e ou do da no na"),
		small:   setOf("o a os as um uma é são você seu sua seus eu nós e de para em que isto este esta tem há pode com por favor como qual quanto não se me do da no na"),
	},
}
