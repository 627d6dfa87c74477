import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { readDocuments } from './documents.ts';

describe('keys that are lists or objects', () => {
  it('are refused with their positions', () => {
    const text = 'a: 1\n? [b, c]\n: 2\nd:\n  - {{ e }}: 3\n';
    const { documents, problems } = readDocuments({ name: 'x.yaml', text }, 'resource/invalid');
    expect(documents).toEqual([]);
    expect(problems.map(({ place }) => place)).toEqual(['x.yaml:2:3', 'x.yaml:5:5']);
    expect(problems[0]?.message).toContain('where a key should be');
  });

  it('cause no output of the YAML library on standard error', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    readDocuments({ name: 'x.yaml', text: 'a: &x [1]\n*x : 2\n' }, 'resource/invalid');
    await setImmediate();
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });
});
