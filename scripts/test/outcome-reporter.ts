// A reporter of vitest that writes down what failed, and when each file of each project ran.
import { writeFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node';

/** Where the outcome is written, from the root of the repository. */
export const OUTCOME = 'build/test-outcome.json';

/** The result of one run of vitest. */
export interface Outcome {
  readonly passed: number;
  readonly skipped: number;
  /** One line for each test that failed, each file that could not be run, and each error outside of tests. */
  readonly failures: readonly string[];
  readonly spans: readonly FileSpan[];
}

/** One run of a file. */
export interface FileSpan {
  readonly project: string;
  readonly file: string;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
}

export default class OutcomeReporter implements Reporter {
  readonly #started = new Map<string, number>();
  readonly #spans: FileSpan[] = [];
  readonly #failures: string[] = [];
  #passed = 0;
  #skipped = 0;

  onTestModuleQueued({ id }: TestModule): void {
    this.#started.set(id, Date.now());
  }

  onTestModuleStart(module: TestModule): void {
    this.onTestModuleQueued(module);
  }

  onTestModuleEnd(module: TestModule): void {
    const { id, project, relativeModuleId: file } = module;
    const endMs = Date.now();
    this.#spans.push({ project: project.name, file, startMs: this.#started.get(id) ?? endMs, endMs });
    for (const { message } of module.errors()) this.#failures.push(`${file}: ${firstLine(message)}`);
  }

  onTestSuiteResult(suite: TestSuite): void {
    const { relativeModuleId: file } = suite.module;
    for (const { message } of suite.errors()) this.#failures.push(`${file} > ${suite.fullName}: ${firstLine(message)}`);
  }

  onTestCaseResult(test: TestCase): void {
    const result = test.result();
    if (result.state === 'passed') this.#passed += 1;
    if (result.state === 'skipped') this.#skipped += 1;
    if (result.state !== 'failed') return;
    const { relativeModuleId: file } = test.module;
    this.#failures.push(`${file} > ${test.fullName}: ${firstLine(result.errors[0]?.message ?? '')}`);
  }

  onTestRunEnd(_modules: readonly TestModule[], errors: readonly { readonly message: string }[]): void {
    const failures = [...this.#failures, ...errors.map(({ message }) => `outside of tests: ${firstLine(message)}`)];
    const outcome: Outcome = { passed: this.#passed, skipped: this.#skipped, failures, spans: this.#spans };
    writeFileSync(OUTCOME, JSON.stringify(outcome));
  }
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
