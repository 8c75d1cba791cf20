// Adk runs the workloads with google.golang.org/adk.
package main

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/glebarez/sqlite"
	"github.com/superstep-dev/superstep/bench/measure"
	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/workflowagents/loopagent"
	"google.golang.org/adk/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/model"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/adk/session/database"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

const app, user = "bench", "user"

var bg = context.Background()

func main() {
	always := "no run without a session: measured with one in memory"
	measure.Main(measure.Peer{
		Name:    "ADK-Go",
		Version: measure.ModuleVersion("google.golang.org/adk"),
		Run: map[string]func(string) (measure.Sample, error){
			"loop":             loop,
			"chain":            chain,
			"memory":           stored(memory, measure.FewThreads),
			"sqlite":           stored(onSQLite, measure.FewFiles),
			"commits":          measure.Commits("sqlite", func(path string) string { return path }),
			"many":             many,
			"turns-memory":     turns(memory, 200),
			"turns-memory-400": turns(memory, 400),
			"turns-sqlite":     turns(onSQLite, 200),
			"turns-sqlite-400": turns(onSQLite, 400),
		},
		NA:    map[string]string{"sends": "no sends: what runs in parallel is fixed when the agent is built"},
		Notes: map[string]string{"loop": always, "chain": always},
	})
}

// A store is made anew for each sample.
type store struct {
	session.Service
	close func() error
	file  string
}

func memory(string) (store, error) { return store{Service: session.InMemoryService()}, nil }

func onSQLite(dir string) (store, error) {
	dialector := sqlite.Open(filepath.Join(dir, "threads.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	var db *gorm.DB
	s, err := database.NewSessionService(dialector, &gorm.Config{Logger: logger.Discard}, keep{&db})
	if err != nil {
		return store{}, err
	}
	conn, err := db.DB()
	if err != nil {
		return store{}, err
	}
	return store{s, conn.Close, "threads.db"}, database.AutoMigrate(s)
}

// keep is an option of gorm that hands out the database, to close it.
type keep struct{ db **gorm.DB }

func (keep) Apply(*gorm.Config) error { return nil }
func (k keep) AfterInitialize(db *gorm.DB) error {
	*k.db = db
	return nil
}

// counting is an agent that adds one to the session's number, and ends the loop
// that it is in when it comes to a number.
func counting(name string, to int) (agent.Agent, error) {
	return agent.New(agent.Config{Name: name, Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
		return func(yield func(*session.Event, error) bool) {
			n, err := number(ctx.Session())
			if err != nil {
				yield(nil, err)
				return
			}
			ev := session.NewEventWithContext(ctx, ctx.InvocationID())
			ev.Actions.StateDelta["n"] = n + 1
			ev.Actions.Escalate = n+1 == to
			yield(ev, nil)
		}
	}})
}

func number(s session.Session) (int, error) {
	switch n, err := s.State().Get("n"); n := n.(type) {
	case nil:
		return 0, nil
	case int:
		return n, err
	case float64: // read from a database
		return int(n), err
	default:
		return 0, fmt.Errorf("n is a %T", n)
	}
}

func ring(st store, to int) (*runner.Runner, error) {
	count, err := counting("count", to)
	if err != nil {
		return nil, err
	}
	a, err := loopagent.New(loopagent.Config{AgentConfig: agent.Config{Name: "ring", SubAgents: []agent.Agent{count}}})
	if err != nil {
		return nil, err
	}
	return over(st, a)
}

func over(st store, a agent.Agent) (*runner.Runner, error) {
	return runner.New(runner.Config{AppName: app, Agent: a, SessionService: st, AutoCreateSession: true})
}

// invoke counts on a new session and looks at what it has then.
func invoke(r *runner.Runner, st store, id string, want int) error {
	if err := run(r, id, nil); err != nil {
		return err
	}
	return check(st, id, want)
}

func check(st store, id string, want int) error {
	got, err := st.Get(bg, &session.GetRequest{AppName: app, UserID: user, SessionID: id, NumRecentEvents: 1})
	if err != nil {
		return err
	}
	n, err := number(got.Session)
	if err != nil {
		return err
	}
	return measure.Want("counted", n, want)
}

func run(r *runner.Runner, id string, msg *genai.Content) error {
	for _, err := range r.Run(bg, user, id, msg, agent.RunConfig{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func loop(string) (measure.Sample, error) {
	st, _ := memory("")
	r, err := ring(st, measure.LoopSteps)
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Loops, func(i int) error { return invoke(r, st, strconv.Itoa(i), measure.LoopSteps) })
	}}, err
}

func chain(string) (measure.Sample, error) {
	st, _ := memory("")
	nodes := make([]agent.Agent, measure.ChainNodes)
	for i := range nodes {
		var err error
		if nodes[i], err = counting(fmt.Sprint("node", i), 0); err != nil {
			return measure.Sample{}, err
		}
	}
	a, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "chain", SubAgents: nodes}})
	if err != nil {
		return measure.Sample{}, err
	}
	r, err := over(st, a)
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Chains, func(i int) error { return invoke(r, st, strconv.Itoa(i), measure.ChainNodes) })
	}}, err
}

// stored runs ten steps on each of some new sessions, one after the other.
func stored(open func(dir string) (store, error), threads int) func(string) (measure.Sample, error) {
	return func(dir string) (measure.Sample, error) {
		st, err := open(dir)
		if err != nil {
			return measure.Sample{}, err
		}
		r, err := ring(st, measure.RunSteps)
		return measure.Sample{Close: st.close, Stored: st.file, Do: func() error {
			if err := measure.Times(threads, func(i int) error { return run(r, strconv.Itoa(i), nil) }); err != nil {
				return err
			}
			return check(st, "0", measure.RunSteps)
		}}, err
	}
}

func many(string) (measure.Sample, error) {
	st, _ := memory("")
	r, err := ring(st, measure.RunSteps)
	return measure.Sample{Do: func() error {
		if err := measure.AtOnce(measure.Threads, func(i int) error { return run(r, strconv.Itoa(i), nil) }); err != nil {
			return err
		}
		return check(st, "0", measure.RunSteps)
	}}, err
}

// turns is a conversation: the message of each turn is stored, and the agent's
// answer.
func turns(open func(dir string) (store, error), n int) func(string) (measure.Sample, error) {
	texts := measure.Texts(n)
	return func(dir string) (measure.Sample, error) {
		st, err := open(dir)
		if err != nil {
			return measure.Sample{}, err
		}
		a, err := agent.New(agent.Config{Name: "answer", Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				ev := session.NewEventWithContext(ctx, ctx.InvocationID())
				ev.LLMResponse = model.LLMResponse{Content: genai.NewContentFromText(texts[ctx.Session().Events().Len()], genai.RoleModel)}
				yield(ev, nil)
			}
		}})
		if err != nil {
			return measure.Sample{}, err
		}
		r, err := over(st, a)
		return measure.Sample{Close: st.close, Stored: st.file, Do: func() error {
			err := measure.Times(n, func(i int) error {
				return run(r, "talk", genai.NewContentFromText(texts[2*i], genai.RoleUser))
			})
			if err != nil {
				return err
			}
			got, err := st.Get(bg, &session.GetRequest{AppName: app, UserID: user, SessionID: "talk"})
			if err != nil {
				return err
			}
			return measure.Want("messages", got.Session.Events().Len(), 2*n)
		}}, err
	}
}
