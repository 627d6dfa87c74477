/** The servers of the fan-out: name of the program, of its account and Deployment, and audience of the tokens of agents. */
export const TYPHA = 'netplug-typha';

/** `spec.typha.mode` of an Installation. */
export type FanOutMode = 'Enabled' | 'Disabled';

/** Returns the word of the commands that switch the fan-out. */
export function fanOutWord(mode: FanOutMode): 'on' | 'off' {
  return mode === 'Enabled' ? 'on' : 'off';
}
