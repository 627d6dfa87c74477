/** How long the soak is, and what repeats its decisions. */
export interface SoakSettings {
  readonly calls: number;
  /** It ends after so long on a machine that is too slow for the calls. */
  readonly longestMs: number;
  readonly seed: number;
}

/** Adds the seed that NETPLUG_SOAK_SEED says, or any. */
export function soakSettings(size: Omit<SoakSettings, 'seed'>): SoakSettings {
  const { NETPLUG_SOAK_SEED = Math.floor(Math.random() * 2 ** 31) } = process.env;
  return { ...size, seed: Number(NETPLUG_SOAK_SEED) };
}
