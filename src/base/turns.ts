const waiting: (() => void)[] = [];

/**
 * Lets the caller go on in a turn of the event loop that nobody has who waits here too. When many are told the same at
 * once, whatever else wants to be heard does not wait for all of them; and large pieces of work do not meet in a turn.
 */
export async function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(letNextGo);
  });
}

function letNextGo(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(letNextGo);
}
