/** Datagrams of one size to one target. */
export interface StreamCounts {
  readonly sent: number;
  readonly hasAnswered: boolean;
  /** Those without an answer; undefined when there are none. */
  readonly outage?: Outage | undefined;
}

export interface Outage {
  readonly lost: number;
  /** RFC 3339, of the first that was lost. */
  readonly at: string;
  readonly seconds: number;
}

/** Datagrams that fill a packet. */
export interface FullSizeCounts extends StreamCounts {
  /** Size of each packet in bytes, with its headers: the MTU of the interface when the watch began. */
  readonly bytes: number;
  /** Whether several were lost before any was answered, while small ones were answered. */
  readonly neverArrives: boolean;
  /** What was found out after a loss: the MTU of the interface now, and the largest packet that arrives now. */
  readonly now?: { readonly interfaceMtu: number; readonly arriving: number } | undefined;
}

/** What was sent to one target. */
export interface FlowCounts {
  readonly url: string;
  readonly small: StreamCounts;
  /** Undefined where only small datagrams are sent. */
  readonly fullSize?: FullSizeCounts | undefined;
}

/** What a line says that was lost on the way to an address. */
export interface FlowLoss {
  readonly kind: 'small' | 'full-size' | 'full-size-from-start';
  readonly address: string;
}

const LOST = ' datagrams lost ';
const LOST_BY_SIZE = ' are lost while small ones arrive: ';
const NEVER_BY_SIZE = ' do not arrive since the watch began, while small ones do';

/** Returns what became of the datagrams to a target, in one line for each size. Pure. */
export function flowLines({ url, small, fullSize }: FlowCounts): readonly string[] {
  const lines = [`${url}: ${smallText(small)}`];
  // While nothing has arrived, the size is not what matters.
  if (fullSize !== undefined && small.hasAnswered) lines.push(`${url}: ${fullSizeText(fullSize, small)}`);
  return lines;
}

function smallText({ sent, hasAnswered, outage }: StreamCounts): string {
  if (!hasAnswered) return `none of ${String(sent)} datagrams was answered`;
  return outage === undefined
    ? `${String(sent)} datagrams sent, none lost`
    : `${String(outage.lost)} of ${String(sent)}${LOST}${timeOf(outage)}`;
}

function fullSizeText(counts: FullSizeCounts, small: StreamCounts): string {
  const { sent, hasAnswered, neverArrives, outage, bytes } = counts;
  const size = `full-size packets of ${String(bytes)} bytes`;
  const mtu = counts.now === undefined ? '' : `; MTU: ${mtuText(counts, counts.now)}`;
  if (neverArrives) return `${size}${NEVER_BY_SIZE}${mtu}`;
  if (!hasAnswered) return `none of ${String(sent)} ${size} was answered so far`;
  if (outage === undefined) return `${String(sent)} ${size} sent, none lost`;
  // What loses small ones as well is no matter of the MTU.
  if (small.outage !== undefined) return `${String(outage.lost)} of ${String(sent)} ${size} lost as well`;
  return `${size}${LOST_BY_SIZE}${String(outage.lost)} of ${String(sent)} ${timeOf(outage)}${mtu}`;
}

function mtuText({ bytes }: FullSizeCounts, { interfaceMtu, arriving }: NonNullable<FullSizeCounts['now']>): string {
  if (arriving >= bytes) return `packets of ${String(bytes)} bytes arrive again`;
  if (interfaceMtu < bytes)
    return `that of the pod's interface was lowered from ${String(bytes)} to ${String(interfaceMtu)} bytes`;
  return `packets of at most ${String(arriving)} bytes arrive`;
}

function timeOf({ at, seconds }: Outage): string {
  return `within ${seconds.toFixed(1)} s from ${at}`;
}

/** Reads a line of `flowLines`; returns undefined for one that says nothing of a loss that counts. Pure. */
export function readFlowLine(line: string): FlowLoss | undefined {
  const address = /^\s*udp:\/\/\[?([0-9a-f.:]+?)\]?:\d+: /.exec(line)?.[1];
  if (address === undefined) return undefined;
  if (line.includes(LOST_BY_SIZE)) return { kind: 'full-size', address };
  if (line.includes(NEVER_BY_SIZE)) return { kind: 'full-size-from-start', address };
  return line.includes(LOST) ? { kind: 'small', address } : undefined;
}

/** Sizes that are tried at once: three rounds find the one of a path that takes up to 4096 bytes. */
const AT_ONCE = 16;

/** Returns the largest size of those from `fits`, which gets through, to `most` that does. */
export async function largestArriving(
  { fits, most }: { readonly fits: number; readonly most: number },
  isThrough: (bytes: number) => Promise<boolean>,
): Promise<number> {
  for (let [below, above] = [fits, most + 1]; ;) {
    const step = Math.ceil((above - below) / (AT_ONCE + 1));
    const sizes = Array.from({ length: AT_ONCE }, (_, at) => below + (at + 1) * step).filter((size) => size < above);
    if (sizes.length === 0) return below;
    const largest = (await Promise.all(sizes.map(isThrough))).lastIndexOf(true);
    [below, above] = [sizes[largest] ?? below, sizes[largest + 1] ?? above];
  }
}
