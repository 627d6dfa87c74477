/** Bytes of the labels of a tracked flow, of which administrators name the first bits: this is the last. */
export const FLOW_NOTE = Buffer.concat([Buffer.alloc(15), Buffer.of(0x80)]);

/** Reports whether the labels of a flow have the bit. */
export function hasNote(labels: Buffer | undefined): boolean {
  return labels !== undefined && ((labels[FLOW_NOTE.length - 1] ?? 0) & 0x80) !== 0;
}
