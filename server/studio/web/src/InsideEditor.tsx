// Editing the state inside of a subgraph, from which the run goes on.
import { client, words, type Assistant } from "./api";
import { questions, stepOf, type Moment } from "./history";
import { baseOf, nodesIn, writtenAt, type Place } from "./inside";
import { update, type Schema } from "./schema";
import type { Session, Snapshot } from "./session";
import { StateEditor } from "./StateEditor";
import { Dialog, Problem, Spinner, useAsync } from "./ui";

export type InsideEdit = { place: Place; all: Moment[]; moment: Moment; asNode: boolean; run: boolean };

export function InsideEditor({ assistant, edit: { place, all, moment, asNode, run }, session, snap, close, goOn }: { assistant: Assistant; edit: InsideEdit; session: Session; snap: Snapshot; close: () => void; goOn: () => void }) {
  const { data, error } = useAsync(async () => {
    const [graphs, whole] = await Promise.all([client.assistants.getSubgraphs(assistant.assistant_id, { recurse: true }), client.assistants.getGraph(assistant.assistant_id, { xray: true })]);
    const of = graphs[place.path.join("|")] as { state_schema?: unknown; output_schema?: unknown; input_schema?: unknown } | undefined;
    return { state: (of?.state_schema ?? of?.output_schema ?? {}) as Schema, input: (of?.input_schema ?? {}) as Schema, nodes: nodesIn(place.path, whole.nodes.map((n) => String(n.id))) };
  }, [assistant.assistant_id, place.ns]);
  const title = `Edit inside ${place.path.join(" › ")}, step ${stepOf(moment) ?? "?"}`;
  if (!data) return <Dialog title={title} close={close}>{error === undefined ? <Spinner /> : <Problem text={words(error)} />}</Dialog>;
  const values = moment.state.values;
  return (
    <StateEditor title={title} values={values} next={moment.state.next} nodes={asNode ? data.nodes : []} asks={questions(moment.state).length > 0} runs={run} saves="Save"
      state={data.state} problem={snap.error} close={() => { close(); session.clearError(); }}
      save={async (edited, node, runToo) => {
        const base = writtenAt(all, moment, node);
        const changed = update(base.state.values, edited, data.input);
        if (!await session.edit(Object.keys(changed).length > 0 ? changed : null, baseOf(place, base), node)) return false;
        if (runToo) goOn();
        return true;
      }} />
  );
}
