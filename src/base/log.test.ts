import { describe, expect, it } from 'vitest';
import { createLog, type LogLevel } from './log.ts';

describe('a log line', () => {
  it('has time, level, event and facts, with quotes around values that contain spaces', () => {
    const lines: string[] = [];
    const log = createLog('INFO', [(line) => lines.push(line)], () => 0);
    log.info('pod connected', {
      pod: 'shop/web-0',
      addresses: ['10.0.0.1', '10.0.0.2'],
      why: 'two words\n',
      missing: undefined,
      ms: 1.5,
    });
    expect(lines).toEqual([
      '1970-01-01T00:00:00.000Z INFO    pod connected pod=shop/web-0 addresses=10.0.0.1,10.0.0.2 why="two words\\n" ms=1.5\n',
    ]);
  });

  it('is written only when its level is enabled [nc-loglevel]', () => {
    const seen: Record<string, number> = {};
    for (const level of ['ERROR', 'WARNING', 'INFO', 'DEBUG'] as const) {
      const log = createLog(level, [() => (seen[level] = (seen[level] ?? 0) + 1)], () => 0);
      log.error('e');
      log.warning('w');
      log.info('i');
      log.debug('d');
    }
    expect(seen).toEqual({ ERROR: 1, WARNING: 2, INFO: 3, DEBUG: 4 });
  });

  it('is written at the level of the moment', () => {
    let level: LogLevel = 'ERROR';
    const lines: string[] = [];
    const log = createLog(
      () => level,
      [(line) => lines.push(line)],
      () => 0,
    );
    log.info('early');
    level = 'INFO';
    log.info('late');
    expect(lines).toEqual([expect.stringContaining('late')]);
  });
});
