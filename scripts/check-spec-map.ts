// Compares docs/spec-map.md with the tests, with the sources, and with the specification where it is at hand.
import { existsSync, globSync, readFileSync } from 'node:fs';
import { type MapSources, mapFaults, parseMap } from './spec-map.ts';
import { sentencesOf } from './specification.ts';

const SPECIFICATION = process.env['NETPLUG_SPECIFICATION'] ?? '../shared/specification.md';
const TESTS = ['src/**/*.test.ts', 'test/**/*.test.ts', 'test/contract/suites/**/*.ts', 'test/support/*-suite.ts'];

const sentences = existsSync(SPECIFICATION) ? sentencesOf(readFileSync(SPECIFICATION, 'utf8')) : undefined;
if (process.argv.includes('--list')) {
  for (const { place, hash, text } of sentences ?? []) process.stdout.write(`${place} ${hash} ${text}\n`);
} else {
  if (sentences === undefined) {
    console.log(
      `spec-map: the sentences are not compared here, because there is no "${SPECIFICATION}" (NETPLUG_SPECIFICATION)`,
    );
  }
  const sources: MapSources = {
    sentences,
    textOf: (file) => (existsSync(file) ? readFileSync(file, 'utf8') : undefined),
    tests: new Map(globSync(TESTS).map((file) => [file, readFileSync(file, 'utf8')])),
  };
  const faults = mapFaults(parseMap(readFileSync('docs/spec-map.md', 'utf8')), sources);
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
