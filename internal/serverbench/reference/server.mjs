// Starts the reference's server on the port given.
process.env.LANGSMITH_TRACING = "false";
process.env.LOG_LEVEL ??= "error";
const { startServer } = await import("@langchain/langgraph-api/server");
const { host } = await startServer({
  port: Number(process.argv[2]), host: "127.0.0.1", nWorkers: 10, cwd: process.cwd(), graphs: { three: "./graph.mjs:graph" },
});
console.log("ready", host);
