/** Placeholder for the build until the command line lands beside it. */
export async function runCtl(): Promise<void> {
  await Promise.resolve();
}
