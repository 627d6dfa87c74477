import * as v from 'valibot';
import { tryParseJson } from '../base/try-parse-json.ts';
import { isContainerId, isInterfaceName } from './interface-name.ts';

const stored = v.object({
  format: v.literal(1),
  network: v.pipe(v.string(), v.nonEmpty()),
  at: v.pipe(v.string(), v.isoTimestamp()),
  kept: v.array(
    v.object({
      containerID: v.pipe(v.string(), v.check(isContainerId, 'it is no container id')),
      ifName: v.pipe(v.string(), v.check(isInterfaceName, 'it is no interface name')),
      pod: v.exactOptional(v.string()),
      askedAt: v.exactOptional(v.pipe(v.string(), v.isoTimestamp())),
      goneSince: v.exactOptional(v.pipe(v.string(), v.isoTimestamp())),
    }),
  ),
});

/** An attachment that a runtime did not list as valid in GC, and that GC kept because its network namespace exists. */
export interface KeptAttachment {
  readonly containerId: string;
  readonly ifName: string;
  /** `namespace/name`; undefined when no record names it. */
  readonly pod: string | undefined;
  /** When the orchestrator's API was last asked for the pod, ISO 8601. */
  readonly askedAt: string | undefined;
  /** Since when the API has answered that the pod is gone, ISO 8601; undefined when it has not. */
  readonly goneSince: string | undefined;
}

/** What the last GC of one network kept on this node. */
export interface KeptNote {
  readonly network: string;
  /** When, ISO 8601. */
  readonly at: string;
  readonly kept: readonly KeptAttachment[];
}

/** Encodes the note as one line of JSON. */
export function encodeKeptNote({ network, at, kept }: KeptNote): string {
  const all = kept.map(({ containerId: containerID, ...rest }) => ({ containerID, ...rest }));
  return `${JSON.stringify({ format: 1, network, at, kept: all })}\n`;
}

/** Decodes a note; undefined when the text is none. */
export function decodeKeptNote(text: string): KeptNote | undefined {
  const read = v.safeParse(stored, tryParseJson(text));
  if (!read.success) return undefined;
  const { network, at, kept } = read.output;
  return {
    network,
    at,
    kept: kept.map(({ containerID: containerId, ifName, pod, askedAt, goneSince }) => ({
      containerId,
      ifName,
      pod,
      askedAt,
      goneSince,
    })),
  };
}
