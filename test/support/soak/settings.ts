/** How long the soak is, and what repeats its decisions. */
export interface SoakSettings {
  readonly calls: number;
  /** It ends after so long on a machine that is too slow for the calls. */
  readonly longestMs: number;
  readonly seed: number;
}

/** Returns what NETPLUG_SOAK_CALLS and NETPLUG_SOAK_SEED say; without them what is given, and any seed. */
export function soakSettings({ calls, longestMs }: Omit<SoakSettings, 'seed'>): SoakSettings {
  const { NETPLUG_SOAK_CALLS: asked, NETPLUG_SOAK_SEED = Math.floor(Math.random() * 2 ** 31) } = process.env;
  const size = asked === undefined ? { calls, longestMs } : { calls: Number(asked), longestMs: Infinity };
  return { ...size, seed: Number(NETPLUG_SOAK_SEED) };
}
