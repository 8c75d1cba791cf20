package middleware

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// Todo is an entry of the list that an agent keeps of its work.
type Todo struct {
	Content string     `json:"content" jsonschema:"what is to be done"`
	Status  TodoStatus `json:"status" jsonschema:"pending, in_progress or completed"`
}

// TodoStatus says how far a [Todo] is.
type TodoStatus string

// The statuses.
const (
	TodoPending    TodoStatus = "pending"
	TodoInProgress TodoStatus = "in_progress"
	TodoCompleted  TodoStatus = "completed"
)

// TodoTool is the name of the tool with which a model writes its list.
const TodoTool = "write_todos"

const todoName = "todos"

const todoAdvice = "For work of three steps and more, keep a list with the tool " + TodoTool + ": write it before you begin, one entry in_progress at a time, and mark each as completed as soon as it is. Don't use it for simple requests."

// Todos reads the list of an agent with [TodoList].
func Todos(s *agent.State) ([]Todo, error) { return agent.Kept[[]Todo](s, todoName) }

// TodoList gives the agent a tool to plan its work with, a list that stays in the thread and
// stands in each request: see [Todos].
func TodoList[S any, P agent.Stateful[S]]() agent.Middleware[S] {
	m := agent.OnRequest(todoName, func(_ context.Context, s *S, req *model.Request) error {
		list, err := Todos(P(s).AgentState())
		if err != nil {
			return err
		}
		text := todoAdvice
		if len(list) > 0 {
			text += "\nYour list now:"
			for i, t := range list {
				text += fmt.Sprintf("\n%d. [%s] %s", i+1, t.Status, t.Content)
			}
		}
		at := 0
		for at < len(req.Messages) && req.Messages[at].Role == chat.RoleSystem {
			at++
		}
		messages := append([]chat.Message{}, req.Messages[:at]...)
		req.Messages = append(append(messages, chat.System(text)), req.Messages[at:]...)
		return nil
	})
	type in struct {
		Todos []Todo `json:"todos" jsonschema:"the whole list, in order"`
	}
	m.Tools = append(m.Tools, agent.NewStateTool(TodoTool, "Writes the list of what is to be done, whole.", func(_ context.Context, s *S, in in) (string, graph.Command, error) {
		doing := 0
		for i, t := range in.Todos {
			switch t.Status {
			case TodoInProgress:
				doing++
			case TodoPending, TodoCompleted:
			default:
				return "", graph.Command{}, fmt.Errorf("entry %d has the status %q: want %s, %s or %s", i+1, t.Status, TodoPending, TodoInProgress, TodoCompleted)
			}
		}
		if err := agent.Keep(P(s).AgentState(), todoName, in.Todos); err != nil {
			return "", graph.Command{}, err
		}
		return fmt.Sprintf("The list has %d entries, %d of them in progress.", len(in.Todos), doing), graph.Command{}, nil
	}))
	return m
}
