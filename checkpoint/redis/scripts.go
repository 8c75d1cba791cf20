package redis

import (
	_ "embed"

	goredis "github.com/redis/go-redis/v9"
)

// The scripts run under their hash; the client sends one whole when the server
// does not know it, such as after a restart.
var (
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/index.lua
	indexLua string
	//go:embed lua/write.lua
	writeLua string
	//go:embed lua/get.lua
	getLua string
	//go:embed lua/segments.lua
	segmentsLua string
	//go:embed lua/page.lua
	pageLua string
	//go:embed lua/results.lua
	resultsLua string
	//go:embed lua/steps.lua
	stepsLua string
	//go:embed lua/spaces.lua
	spacesLua string
	//go:embed lua/threads.lua
	threadsLua string
	//go:embed lua/labelled.lua
	labelledLua string
	//go:embed lua/names.lua
	namesLua string
	//go:embed lua/waiting.lua
	waitingLua string
	//go:embed lua/logs.lua
	logsLua string
	//go:embed lua/delete.lua
	deleteLua string
	//go:embed lua/copy.lua
	copyLua string
	//go:embed lua/stage.lua
	stageLua string
	//go:embed lua/rewrite.lua
	rewriteLua string
)

var (
	writeScript    = script(writeLua)
	getScript      = reading(getLua)
	segmentsScript = reading(segmentsLua)
	pageScript     = reading(pageLua)
	resultsScript  = reading(resultsLua)
	stepsScript    = reading(stepsLua)
	spacesScript   = reading(spacesLua)
	threadsScript  = script(threadsLua)
	labelledScript = script(labelledLua)
	namesScript    = script(namesLua)
	waitingScript  = script(waitingLua)
	logsScript     = reading(logsLua)
	deleteScript   = script(deleteLua)
	copyScript     = script(copyLua)
	stageScript    = script(stageLua)
	rewriteScript  = script(rewriteLua)
)

func script(body string) *goredis.Script { return goredis.NewScript(commonLua + indexLua + body) }

// reading makes a script that reads one log.
func reading(body string) *goredis.Script { return goredis.NewScript(commonLua + body) }
