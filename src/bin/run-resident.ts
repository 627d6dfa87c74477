import { reportError } from '../base/report-error.ts';

/** Runs a resident program to its end, and sets the exit status. What it throws is written to stderr. */
export async function runResident(run: (env: NodeJS.ProcessEnv) => Promise<void>): Promise<void> {
  try {
    await run(process.env);
    process.exitCode = 0;
  } catch (cause) {
    const stderr = (text: string): void => void process.stderr.write(text);
    process.exitCode = reportError({ stderr }, cause);
  }
}
