package temporal

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/superstep-dev/superstep/fleet"
)

var update = flag.Bool("update", false, "write the history of a run anew: for a workflow that may break those that are at work")

const history = "testdata/run.json"

// The workflow does with a history what it did when the history was written: else it would
// break the runs that are at work when it is deployed.
func TestHistoriesAreReplayed(t *testing.T) {
	if *update {
		data, err := protojson.MarshalOptions{Multiline: true}.Marshal(written(t))
		if err == nil {
			err = os.WriteFile(history, append(data, '\n'), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := replay(string(data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestAHistoryThatTheWorkflowWouldNotWriteIsNoticed(t *testing.T) {
	data, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{advanceName, runTasksName, fusedName} {
		if other := strings.ReplaceAll(string(data), name, giveUpName); replay(other) == nil {
			t.Errorf("%s in the place of %s was not noticed", giveUpName, name)
		}
	}
}

func replay(data string) error {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowName})
	h, err := client.HistoryFromJSON(strings.NewReader(data), client.HistoryJSONOptions{})
	if err != nil {
		return err
	}
	return r.ReplayWorkflowHistory(nil, h)
}

// written is the history of a run with a superstep of three tasks, one of a lone task, a
// sleep and an end, in the form in which a server gives it.
func written(t *testing.T) *historypb.History {
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	payloads := func(values ...any) *commonpb.Payloads {
		p, err := converter.GetDefaultDataConverter().ToPayloads(values...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	h := new(historypb.History)
	add := func(kind enumspb.EventType, e *historypb.HistoryEvent) int64 {
		e.EventId, e.EventType = int64(len(h.Events)+1), kind
		e.EventTime = timestamppb.New(at.Add(time.Duration(e.EventId) * time.Second))
		h.Events = append(h.Events, e)
		return e.EventId
	}
	decided := int64(0)
	task := func() {
		scheduled := add(enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{}}})
		started := add(enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: scheduled}}})
		decided = add(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: scheduled, StartedEventId: started}}})
	}
	schedule := func(name string, input ...any) int64 {
		id := strconv.Itoa(len(h.Events) + 1)
		return add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityId: id, ActivityType: &commonpb.ActivityType{Name: name}, TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}, Input: payloads(input...), WorkflowTaskCompletedEventId: decided,
		}}})
	}
	complete := func(scheduled int64, result any) {
		started := add(enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: scheduled, Attempt: 1}}})
		add(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: scheduled, StartedEventId: started, Result: payloads(result)}}})
		task()
	}
	ref := fleet.Ref{Graph: "g", Version: "v1", Thread: "t", Run: "01a21ac1-6e85-709b-a57d-180700000000", Fence: 1}
	p := fleet.Progress{Ref: ref}
	next := func(status fleet.RunStatus, superstep string, tasks int) fleet.Progress {
		p.Fence, p.Status, p.Superstep, p.From, p.To = 2, status, superstep, 0, tasks
		return p
	}
	pl := Options{Batch: 2}
	add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
		WorkflowType: &commonpb.WorkflowType{Name: workflowName}, TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}, Input: payloads(pl.plan()), Attempt: 1, OriginalExecutionRunId: "r", FirstExecutionRunId: "r",
	}}})
	add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: dispatched, Input: payloads(ref)}}})
	task()
	complete(schedule(advanceName, ref), next(fleet.RunGoesOn, "s1", 3))
	first, second := schedule(runTasksName, p.Ref, 0, 2), schedule(runTasksName, p.Ref, 2, 3)
	complete(second, tasksDone{})
	complete(first, tasksDone{})
	complete(schedule(advanceName, p.Ref), next(fleet.RunGoesOn, "s2", 1))
	p.Wake = at.Add(time.Hour)
	complete(schedule(fusedName, p, pl.plan().Fuse), next(fleet.RunSleeps, "", 0))
	timer := strconv.Itoa(len(h.Events) + 1)
	started := add(enumspb.EVENT_TYPE_TIMER_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_TimerStartedEventAttributes{TimerStartedEventAttributes: &historypb.TimerStartedEventAttributes{TimerId: timer, StartToFireTimeout: durationpb.New(time.Hour), WorkflowTaskCompletedEventId: decided}}})
	add(enumspb.EVENT_TYPE_TIMER_FIRED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_TimerFiredEventAttributes{TimerFiredEventAttributes: &historypb.TimerFiredEventAttributes{TimerId: timer, StartedEventId: started}}})
	task()
	p.Wake = time.Time{}
	complete(schedule(advanceName, p.Ref), next(fleet.RunEnded, "", 0))
	add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{Result: payloads(p), WorkflowTaskCompletedEventId: decided}}})
	return h
}
