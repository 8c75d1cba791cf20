package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/robfig/cron/v3"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// cronBody is what a client says of a cron; what it says of the runs is in
// runBody.
type cronBody struct {
	Schedule    *string    `json:"schedule"`
	OnCompleted string     `json:"on_run_completed"`
	Enabled     *bool      `json:"enabled"`
	Timezone    *string    `json:"timezone"`
	EndTime     *time.Time `json:"end_time"`
}

// following returns when a schedule, in the five fields of cron or as @daily, is
// next due; zero if never.
func following(schedule string, timezone *string, after time.Time) (time.Time, error) {
	at := time.UTC
	if timezone != nil && *timezone != "" {
		var err error
		if at, err = time.LoadLocation(*timezone); err != nil {
			return time.Time{}, invalid("timezone: there is no %.80q", *timezone)
		}
	}
	if len(schedule) > maxName || strings.Contains(schedule, "TZ=") {
		return time.Time{}, invalid("schedule must be five fields, such as \"0 9 * * 1-5\"; where they are in time is for timezone to say")
	}
	plan, err := cron.ParseStandard(schedule)
	if err != nil {
		return time.Time{}, invalid("schedule %s", wrongIn(schedule))
	}
	return plan.Next(after.In(at)).UTC(), nil
}

// wrongIn says what is wrong with a schedule that can't be read.
func wrongIn(schedule string) string {
	const must = "must be five fields, such as \"0 9 * * 1-5\""
	if strings.HasPrefix(schedule, "@") {
		return fmt.Sprintf(must+", or one of @yearly, @monthly, @weekly, @daily, @hourly and @every with a duration, not %.80q", schedule)
	}
	fields := strings.Fields(schedule)
	if len(fields) != 5 {
		return fmt.Sprintf(must+"; %.80q has %d", schedule, len(fields))
	}
	for i, name := range []string{"minute (0-59)", "hour (0-23)", "day of the month (1-31)", "month (1-12 or JAN-DEC)", "day of the week (0-6 or SUN-SAT)"} {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = fields[i]
		if _, err := cron.ParseStandard(strings.Join(alone, " ")); err != nil {
			return fmt.Sprintf(must+"; %.80q is no %s", fields[i], name)
		}
	}
	return must
}

// plan sets when a cron is due next.
func plan(c *db.Cron, after time.Time) error {
	next, err := following(c.Schedule, c.Timezone, after)
	if err != nil {
		return err
	}
	c.Next = &next
	if next.IsZero() || !c.Enabled || c.EndTime != nil && next.After(*c.EndTime) {
		c.Next = nil
	}
	return nil
}

// willFire reports a cron whose time never comes, even while it is enabled.
func willFire(c *db.Cron, at time.Time) error {
	next, err := following(c.Schedule, c.Timezone, at)
	switch {
	case err != nil:
		return err
	case next.IsZero():
		return invalid("schedule %q never comes: no date is like that", c.Schedule)
	case c.EndTime != nil && !c.EndTime.After(at):
		return invalid("end_time %s is past", c.EndTime.Format(time.RFC3339))
	case c.EndTime != nil && next.After(*c.EndTime):
		return invalid("schedule %q comes at %s, which is after end_time", c.Schedule, next.Format(time.RFC3339))
	}
	return nil
}

// crons starts runs at times.
type crons struct {
	*base
	access     *access
	assistants *assistants
	dispatcher *dispatcher
	runs       *runs
}

func (s *crons) routes() []route {
	return []route{
		{"POST /runs/crons", "createCron", rule{resource: Crons, verb: Create, how: byHandler}, s.createCron},
		{"POST /threads/{thread}/runs/crons", "createThreadCron", rule{resource: Crons, verb: Create, how: byHandler}, s.createCron},
		{"PATCH /runs/crons/{cron}", "patchCron", rule{resource: Crons, verb: Update, how: byHandler}, s.patchCron},
		{"DELETE /runs/crons/{cron}", "deleteCron", rule{resource: Crons, verb: Delete}, s.deleteCron},
		{"POST /runs/crons/search", "searchCrons", rule{resource: Crons, verb: Search, how: byHandler}, listing(s.findCrons)},
		{"POST /runs/crons/count", "countCrons", rule{resource: Crons, verb: Search, how: byHandler}, counting(s.findCrons)},
	}
}

// cronOf reads what a client says of a cron and of its runs.
func cronOf(r *http.Request) (raw json.RawMessage, b *runBody, c cronBody, err error) {
	raw, b = json.RawMessage("{}"), &runBody{}
	if err = read(r, &raw); err == nil {
		err = errors.Join(decode(raw, b), decode(raw, &c))
	}
	return raw, b, c, err
}

func (s *crons) createCron(w http.ResponseWriter, r *http.Request) (any, error) {
	_, b, c, err := cronOf(r)
	if err != nil {
		return nil, err
	}
	b.own()
	b.Headers = headersOf(r)
	if c.Schedule == nil {
		return nil, invalid("schedule is required")
	}
	if err := oneOf("on_run_completed", c.OnCompleted, "delete", "keep"); err != nil {
		return nil, err
	}
	a, g, err := s.assistants.usable(r.Context(), b.AssistantID)
	if err != nil {
		return nil, err
	}
	b.AssistantID = a.ID
	if err := s.checkMetadata(b.Metadata); err != nil {
		return nil, err
	}
	id := uuid.Must(uuid.NewV7()).String()
	if b.Metadata, _, err = s.access.stampNew(r.Context(), &Action{Resource: Crons, Verb: Create, ID: id}, b.Metadata); err != nil {
		return nil, err
	}
	if err := s.runs.checkRun(b, g); err != nil {
		return nil, err
	}
	if c.OnCompleted == "" {
		c.OnCompleted = "delete"
	}
	b.OnCompletion = c.OnCompleted
	payload, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	at := now()
	made := &db.Cron{
		ID: id, AssistantID: a.ID, OnCompleted: c.OnCompleted, EndTime: c.EndTime, Schedule: *c.Schedule,
		Timezone: c.Timezone, CreatedAt: at, UpdatedAt: at, Payload: payload, Metadata: b.Metadata.raw(), Enabled: c.Enabled == nil || *c.Enabled,
	}
	if r.PathValue("thread") != "" {
		t, err := s.threadOf(r)
		if err != nil {
			return nil, err
		}
		if err := s.access.askThread(r.Context(), &Action{Resource: Runs, Verb: CreateRun, ID: t.ID}, t, nil); err != nil {
			return nil, err
		}
		made.ThreadID = &t.ID
	}
	runsFor(r.Context(), made)
	if err := errors.Join(willFire(made, at), plan(made, at)); err != nil {
		return nil, err
	}
	if err := s.db.AddCron(r.Context(), made); err != nil {
		return nil, err
	}
	s.soon.Store(true)
	note(r.Context(), "cron", id)
	return cronView(made), nil
}

// runsFor has the runs of a cron be the work for the user of a request.
func runsFor(ctx context.Context, c *db.Cron) {
	c.UserID, c.User = nil, userJSON(ctx)
	if u := userOf(ctx); u != nil {
		c.UserID = &u.ID
	}
}

func (s *crons) patchCron(w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := pathID(r, "cron")
	if err != nil {
		return nil, err
	}
	raw, said, c, err := cronOf(r)
	if err != nil {
		return nil, err
	}
	var mine Filter
	said.Metadata, mine, err = s.access.stamp(r.Context(), &Action{Resource: Crons, Verb: Update, ID: id}, said.Metadata)
	if err != nil {
		return nil, err
	}
	// What is looked up is looked up before the cron is locked.
	known, err := s.access.cron(r.Context(), id, mine)
	if err != nil {
		return nil, err
	}
	// Its runs are from now on those of who changes it, who must be able to start them.
	_, g, err := s.assistants.usable(r.Context(), known.AssistantID)
	if err != nil {
		return nil, err
	}
	if known.ThreadID != nil {
		a := &Action{Resource: Runs, Verb: CreateRun, ID: *known.ThreadID}
		t, err := s.db.Thread(r.Context(), a.ID)
		if !errors.Is(err, db.ErrNotFound) { // of one that is gone there are no runs
			err = s.access.askThread(r.Context(), a, t, err)
		}
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, err
		}
	}
	changed, err := s.db.UpdateCron(r.Context(), id, func(old *db.Cron) error {
		var b runBody
		if err := decode(old.Payload, &b); err != nil {
			return err
		}
		if err := decode(raw, &b); err != nil { // what isn't said stays
			return err
		}
		b.own()
		b.AssistantID, b.Headers = old.AssistantID, headersOf(r)
		b.Metadata = objectOf(old.Metadata).with(said.Metadata)
		if err := errors.Join(s.checkMetadata(b.Metadata), within(mine, b.Metadata.raw())); err != nil {
			return err
		}
		if err := s.runs.checkRun(&b, g); err != nil {
			return err
		}
		var err error
		if old.Payload, err = json.Marshal(b); err != nil {
			return err
		}
		old.Metadata, old.UpdatedAt = b.Metadata.raw(), now()
		runsFor(r.Context(), old)
		if c.Schedule != nil {
			old.Schedule = *c.Schedule
		}
		if c.Timezone != nil {
			old.Timezone = c.Timezone
		}
		if objectOf(raw)["end_time"] != nil { // null removes it
			old.EndTime = c.EndTime
		}
		if c.Enabled != nil {
			old.Enabled = *c.Enabled
		}
		if c.OnCompleted != "" {
			old.OnCompleted = c.OnCompleted
		}
		at := now()
		if c.Schedule != nil || c.Timezone != nil || c.EndTime != nil || c.Enabled != nil && *c.Enabled {
			if err := willFire(old, at); err != nil {
				return err
			}
		}
		return plan(old, at)
	})
	if err != nil {
		return nil, missing(err, "Cron not found")
	}
	s.soon.Store(true)
	return cronView(changed), nil
}

// cronShown is a cron as clients see it.
type cronShown struct {
	db.Cron
	EndTime   *instant `json:"end_time"`
	CreatedAt instant  `json:"created_at"`
	UpdatedAt instant  `json:"updated_at"`
	Next      *instant `json:"next_run_date"`
}

func cronView(c *db.Cron) cronShown {
	out := cronShown{*c, (*instant)(c.EndTime), instant(c.CreatedAt), instant(c.UpdatedAt), (*instant)(c.Next)}
	out.User = nil
	return out
}

func (s *crons) deleteCron(w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := pathID(r, "cron")
	if err != nil {
		return nil, err
	}
	return noContent, missing(s.db.DeleteCron(r.Context(), id), "Cron not found")
}

type cronSearch struct {
	searching
	AssistantID string `json:"assistant_id"`
	ThreadID    string `json:"thread_id"`
	Enabled     *bool  `json:"enabled"`
}

func (s *crons) findCrons(r *http.Request, q *cronSearch) (*found, error) {
	p, by, err := s.checkSearch(&q.searching, cronMembers, "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date")
	if _, ok := s.graphs[q.AssistantID]; ok {
		q.AssistantID = assistantOfGraph(q.AssistantID)
	}
	if err = errors.Join(err, checkName("assistant_id", q.AssistantID), checkName("thread_id", q.ThreadID)); err != nil {
		return nil, err
	}
	mine, err := s.access.ask(r.Context(), &Action{Resource: Crons, Verb: Search})
	if err != nil {
		return nil, err
	}
	b := s.budget(r)
	match := matching(q.Metadata, b)
	list, total, err := s.db.Crons(b.ctx, q.AssistantID, q.ThreadID, by, p, func(c *db.Cron) bool {
		return (q.Enabled == nil || *q.Enabled == c.Enabled) && mine.allows(c.Metadata) && match(c.Metadata)
	})
	return &found{p, len(list), total, func() (any, error) { return selected(views(list, cronView), q.Select) }}, b.or(err)
}

// startCrons starts the runs of crons that are due. Of several servers that find a
// cron due, one starts its run. What the database can't do now is tried again.
func (s *crons) startCrons(ctx context.Context) error {
	at := now()
	due, err := s.db.DueCrons(ctx, at, 100)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range due {
		f := db.Firing{Cron: c.ID, Due: *c.Next, Plan: func(c *db.Cron) error { return plan(c, at) }}
		err := s.startCron(ctx, c, f)
		unable, ok := errors.AsType[*fault](err)
		if ok {
			if err = s.db.SkipCron(ctx, f); err == nil {
				s.log.LogAttrs(ctx, slog.LevelError, "server: a cron could not start its run", slog.String("cron", c.ID), slog.Any("error", unable))
			}
		}
		if err != nil && !errors.Is(err, db.ErrFired) {
			errs = append(errs, fmt.Errorf("cron %s: %w", c.ID, err))
		}
	}
	return errors.Join(errs...)
}

// startCron moves a cron on and starts its run. The error is a fault if there can't
// be a run this time; the cron is still to be moved on then.
func (s *crons) startCron(ctx context.Context, c *db.Cron, f db.Firing) error {
	var b runBody
	if err := json.Unmarshal(c.Payload, &b); err != nil {
		return invalid("payload: %v", err)
	}
	if s.access.authorize != nil && c.User == nil {
		return invalid("it is nobody's: it was made before there were users")
	}
	if c.User != nil {
		who := &caller{user: &User{}}
		if err := json.Unmarshal(c.User, who.user); err != nil {
			return invalid("its user: %v", err)
		}
		ctx = withCaller(ctx, who)
	}
	a, g, err := s.assistants.usable(ctx, c.AssistantID)
	if err != nil {
		return err
	}
	thread := ""
	if c.ThreadID != nil {
		thread = *c.ThreadID
	}
	owned, mine, err := s.access.stamp(ctx, &Action{Resource: Runs, Verb: CreateRun, ID: thread}, nil)
	if err != nil {
		return err
	}
	b.Metadata = b.Metadata.with(owned, object{"cron_id": jsonText(c.ID)})
	var t, made *db.Thread
	if thread != "" {
		if t, _, err = s.runs.place(ctx, thread, mine, false); err != nil {
			return err
		}
	} else {
		made = s.newThread(uuid.Must(uuid.NewV7()).String(), owned.with(object{"cron_id": jsonText(c.ID)}), c.OnCompleted != "keep")
		if err := within(mine, made.Metadata); err != nil {
			return err
		}
		t = made
	}
	fire := func(ctx context.Context, r db.NewRun) error { return s.db.FireCron(ctx, f, r) }
	run, err := s.runs.enqueue(ctx, fire, t, made, a, g, &b)
	if err != nil {
		if _, told := errors.AsType[*fault](err); !told && !errors.Is(err, db.ErrFired) {
			s.dispatcher.wake(t.ID) // it is there if only the answer to its commit was lost
		}
		return err
	}
	s.access.auditedSelf(ctx, Runs, CreateRun, "cron", slog.String("cron", c.ID), slog.String("thread", t.ID), slog.String("run", run.ID))
	return nil
}
