// A reporter of vitest that writes down what failed, and when each file of each project ran.
import { writeFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node';

/** Variable that says where the outcome is written: several runs of vitest go on at a time. */
export const OUTCOME = 'NETPLUG_TEST_OUTCOME';

/** The result of one run of vitest. */
export interface Outcome {
  readonly passed: number;
  readonly skipped: number;
  /** One for each test that failed, each file that could not be run, and each error outside of tests. */
  readonly failures: readonly Failure[];
  readonly spans: readonly FileSpan[];
}

export interface Failure {
  /** One line. */
  readonly text: string;
  /** Where it happened; undefined outside of tests. */
  readonly project?: string;
  readonly file?: string;
}

/** One run of a file. */
export interface FileSpan {
  readonly project: string;
  readonly file: string;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  /** Of its process and of those that it started; only of files with a process of their own. */
  readonly cpuSeconds?: number;
}

export default class OutcomeReporter implements Reporter {
  readonly #started = new Map<string, number>();
  readonly #spans: FileSpan[] = [];
  readonly #failures: Failure[] = [];
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
    const startMs = this.#started.get(id) ?? endMs;
    this.#spans.push({ project: project.name, file, startMs, endMs, ...usageOf(module.meta()) });
    for (const { message } of module.errors()) this.#fail(module, message);
  }

  onTestSuiteResult(suite: TestSuite): void {
    for (const { message } of suite.errors()) this.#fail(suite.module, message, suite.fullName);
  }

  onTestCaseResult(test: TestCase): void {
    const result = test.result();
    if (result.state === 'passed') this.#passed += 1;
    if (result.state === 'skipped') this.#skipped += 1;
    if (result.state !== 'failed') return;
    this.#fail(test.module, result.errors[0]?.message ?? '', test.fullName);
  }

  onTestRunEnd(_modules: readonly TestModule[], errors: readonly { readonly message: string }[]): void {
    const outside = errors.map(({ message }) => ({ text: `outside of tests: ${firstLine(message)}` }));
    const failures = [...this.#failures, ...outside];
    const outcome: Outcome = { passed: this.#passed, skipped: this.#skipped, failures, spans: this.#spans };
    writeFileSync(process.env[OUTCOME] ?? 'build/test-outcome.json', JSON.stringify(outcome));
  }

  #fail({ project, relativeModuleId: file }: TestModule, message: string, test?: string): void {
    const place = test === undefined ? file : `${file} > ${test}`;
    this.#failures.push({ text: `${place}: ${firstLine(message)}`, project: project.name, file });
  }
}

/** test/support/usage-of-file.ts leaves it there. */
function usageOf({ cpuSeconds }: { readonly cpuSeconds?: number }): Pick<FileSpan, 'cpuSeconds'> {
  return cpuSeconds === undefined ? {} : { cpuSeconds };
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
