import { MOST_TEXT } from '../../policy/feed/messages.ts';

/** Returns as much of the text as the agent takes: a client may have sent it, or the user who configures the proxy. */
export function shortened(text: string): string {
  return text.slice(0, MOST_TEXT).toWellFormed();
}
