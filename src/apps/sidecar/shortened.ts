import { MOST_TEXT } from '../../policy/feed/messages.ts';

/** Returns as much of the text as the agent takes: it may be of a client, or of whoever configures the proxy. */
export function shortened(text: string): string {
  return text.slice(0, MOST_TEXT).toWellFormed();
}
