// Package agenttest tests agents without a network: it records and plays what
// programs and providers of models say to each other, writes conversations as
// text, checks that they are sound, and makes models and tools fail.
//
//	func TestWeather(t *testing.T) {
//		client := agenttest.Tape(t, "testdata/weather.yaml")
//		m := openai.New("gpt-5-mini", openai.APIKey(agenttest.Key(t, "OPENAI_API_KEY")), openai.HTTPClient(client))
//		...
//	}
//
// [Tape] stands below a provider's package, so that a test runs all of the code
// above HTTP. Package [github.com/superstep-dev/superstep/model/scripted] stands
// in the provider's place: its scripts are written by hand.
//
// [FormatRequests] and [Transcript] write text for golden files, see
// [github.com/superstep-dev/superstep/graphtest.Golden]. [CheckRequests] and
// [CheckConversation] look for what providers refuse.
//
// [Faulty] and [FaultyTool] put faults on any model and any tool. [Evaluate] runs a data
// set of package [github.com/superstep-dev/superstep/eval].
package agenttest
