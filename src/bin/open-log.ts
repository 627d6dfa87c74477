import { writeSync } from 'node:fs';
import { systemClock } from '../base/clock.ts';
import { type AdjustableLevel, createLog, type Log, type LogSink } from '../base/log.ts';
import { logFile } from '../base/log-file.ts';
import { errnoOf } from '../base/errors.ts';
import type { LogSettings } from '../config/netconf.ts';

const MS_PER_DAY = 86_400_000;
const BYTES_PER_MB = 1_000_000;

/** Logs to stderr always, and to the file when one is named. */
export function openLog(
  settings: Omit<LogSettings, 'level'> & { readonly level: AdjustableLevel },
  stderr: LogSink = writeStderr,
): Log {
  const { level, filePath, fileMaxSizeMb, fileMaxAgeDays, fileMaxCount } = settings;
  const limits = {
    maxSizeBytes: fileMaxSizeMb * BYTES_PER_MB,
    maxAgeMs: fileMaxAgeDays * MS_PER_DAY,
    maxCount: fileMaxCount,
  };
  const file = filePath === undefined ? [] : [logFile(filePath, limits, systemClock.now)];
  return createLog(level, [stderr, ...file], systemClock.now);
}

/** Logs to stderr alone, as resident programs do. */
export function openStderrLog(level: AdjustableLevel = 'INFO'): Log {
  return createLog(level, [writeStderr], systemClock.now);
}

function writeStderr(line: string): void {
  try {
    writeSync(2, line);
  } catch (cause) {
    // A caller that does not read stderr (EPIPE, EAGAIN, EBADF) must not fail the call.
    if (errnoOf(cause) === undefined) throw cause;
  }
}
