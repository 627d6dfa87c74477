/** Awaits work as a phase of the call it belongs to. */
export type TimePhase = <T>(phase: string, work: () => Promise<T>) => Promise<T>;
