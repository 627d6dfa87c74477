/** The servers of the fan-out: name of the program, of its account and Deployment, and audience of the tokens of agents. */
export const TYPHA = 'netplug-typha';
