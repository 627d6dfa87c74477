import type { Facts } from './errors.ts';
import { isSteering, visibleText } from './visible-text.ts';

/** Log levels of the netconf field `log_level`, the most severe first. */
export const LOG_LEVELS = ['ERROR', 'WARNING', 'INFO', 'DEBUG'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** An event is a fixed string; variable parts are facts, with units in their names. Facts never contain secrets. */
export interface Log {
  error(event: string, facts?: Facts): void;
  warning(event: string, facts?: Facts): void;
  info(event: string, facts?: Facts): void;
  debug(event: string, facts?: Facts): void;
}

/** Takes whole lines, newline included. Must not throw, because a log failure must not fail a call. */
export type LogSink = (line: string) => void;

/** A level, or a function that returns the level of the moment. */
export type AdjustableLevel = LogLevel | (() => LogLevel);

/** Returns a log that writes `<time> <LEVEL> <event> key=value …` lines up to `level` to every sink. */
export function createLog(level: AdjustableLevel, sinks: readonly LogSink[], now: () => number): Log {
  const levelNow = typeof level === 'function' ? level : (): LogLevel => level;
  const at =
    (lineLevel: LogLevel) =>
    (event: string, facts: Facts = {}): void => {
      if (LOG_LEVELS.indexOf(lineLevel) > LOG_LEVELS.indexOf(levelNow())) return;
      const line = renderLine(new Date(now()).toISOString(), lineLevel, event, facts);
      for (const sink of sinks) sink(line);
    };
  return { error: at('ERROR'), warning: at('WARNING'), info: at('INFO'), debug: at('DEBUG') };
}

export const silentLog: Log = createLog('ERROR', [], () => 0);

// oxlint-disable-next-line max-params -- one private line renderer; an options object would only rename its four words
function renderLine(time: string, level: LogLevel, event: string, facts: Facts): string {
  const words = Object.entries(facts)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${renderValue(value)}`);
  return `${[time, level.padEnd(7), event, ...words].join(' ')}\n`;
}

function renderValue(value: Facts[string]): string {
  const text = Array.isArray(value) ? value.join(',') : String(value);
  return /^[^\s"=\\]+$/.test(text) && !isSteering(text) ? text : visibleText(JSON.stringify(text));
}
