import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import { ownValue } from '../../../base/own-value.ts';
import { foreignRecord } from '../../../base/foreign-record.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import type { Node } from '../../../model/node.ts';

/** Annotation about the orchestrator's Node that the controller copied: which one it is, and the labels it had. */
const ORCH_NODE = 'netplug/orch-node';

type Labels = Readonly<Record<string, string>>;
const Copied = v.object({ uid: v.string(), labels: foreignRecord(v.string(), v.string()) });

/** Reports whether the orchestrator has, or had, a Node of this name. Other nodes are none of its business. */
export function isOfOrchestrator({ metadata }: Node): boolean {
  return metadata.annotations?.[ORCH_NODE] !== undefined;
}

/**
 * Returns the node with the labels of the orchestrator's Node; the same object when nothing differs. Labels that the user
 * wrote stay: only a label that was copied, and still has the value that was copied, is removed.
 */
export function withOrchestratorNode(node: Node, of: Node, syncLabels: boolean): Node {
  const { labels = {}, annotations = {} } = node.metadata;
  const copied = copiedIn(annotations[ORCH_NODE]);
  const theirs = syncLabels ? (of.metadata.labels ?? {}) : copied.labels;
  const own = Object.entries(labels).filter(
    ([key, value]) => Object.hasOwn(theirs, key) || ownValue(copied.labels, key) !== value,
  );
  const after = syncLabels ? { ...Object.fromEntries(own), ...theirs } : labels;
  const note = noteOf({ uid: of.metadata.uid ?? '', labels: theirs });
  if (annotations[ORCH_NODE] === note && isDeepStrictEqual(labels, after)) return node;
  const metadata = { ...node.metadata, labels: after, annotations: { ...annotations, [ORCH_NODE]: note } };
  return { ...node, metadata };
}

/** An annotation that is no longer readable says that nothing was copied: then no label is removed. */
function copiedIn(text: string | undefined): { readonly uid: string; readonly labels: Labels } {
  const read = v.safeParse(Copied, text === undefined ? undefined : tryParseJson(text));
  return read.success ? read.output : { uid: '', labels: {} };
}

function noteOf({ uid, labels }: { readonly uid: string; readonly labels: Labels }): string {
  const sorted = Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ uid, labels: Object.fromEntries(sorted) });
}
