// The graph that is measured: three nodes, each of which adds to a list.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";

const State = Annotation.Root({
  text: Annotation(),
  words: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const add = (word) => async () => ({ words: [word] });

export const graph = new StateGraph(State)
  .addNode("one", add("one"))
  .addNode("two", add("two"))
  .addNode("three", add("three"))
  .addEdge(START, "one")
  .addEdge("one", "two")
  .addEdge("two", "three")
  .addEdge("three", END)
  .compile();
