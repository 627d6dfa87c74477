import { isNetplugError, never } from '../../../base/errors.ts';
import { readContextNames } from '../../../kube/read-kubeconfig.ts';
import { readKubeconfigSource, withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { infoOf, VISIBLE_KINDS, visibleKind } from '../resources/kind-names.ts';
import { listKind } from '../resources/listing.ts';
import { type Candidate, type Line, planCompletion, valueGiven, type Offer } from './plan-completion.ts';

/** Timeout for names from the datastore, since a user waits for them. */
const TIMEOUT_MS = 2000;

/** Directives for the shell, as bits; the same values as kubectl's. */
const NO_SPACE = 2;
const NO_FILES = 4;

/**
 * Prints the candidates for the last word, each with a description after a tab, then the directive for the shell. Prints
 * no candidates after a failure.
 */
export async function complete(context: Context, line: Line): Promise<Status> {
  const wish = planCompletion(line);
  const current = line.words.at(-1) ?? '';
  const all = await candidatesOf({ ...context, ...connectionGiven(line, context) }, wish);
  const fitting = all.filter(({ word }) => word.startsWith(current));
  const isOpen = fitting.length > 0 && fitting.every(({ word }) => word.endsWith('='));
  const directive = (isOpen ? NO_SPACE : 0) + (wish.kind === 'file' ? 0 : NO_FILES);
  const lines = fitting.map(({ word, about }) => (about === '' ? word : `${word}\t${about}`));
  context.io.stdout([...lines, `:${String(directive)}`].map((text) => `${text}\n`).join(''));
  return 0;
}

/** Returns the connection flags on the line that is being typed, each with that of the call as its default. */
function connectionGiven(line: Line, { config, kubeconfig }: Context): Pick<Context, 'config' | 'kubeconfig'> {
  return {
    config: valueGiven(line, 'config') ?? config,
    kubeconfig: {
      file: valueGiven(line, 'kubeconfig') ?? kubeconfig.file,
      context: valueGiven(line, 'context') ?? kubeconfig.context,
    },
  };
}

async function candidatesOf(given: Context, wish: Offer): Promise<readonly Candidate[]> {
  const signal = AbortSignal.any([given.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  // A warning would appear in the line that the user is typing.
  const context = { ...given, io: { ...given.io, stderr: () => undefined }, signal };
  try {
    switch (wish.kind) {
      case 'words':
        return wish.candidates;
      case 'file':
        return [];
      case 'kinds':
        return VISIBLE_KINDS.map((kind) => ({ word: `${wish.stem}${infoOf(kind).plural}`, about: kind }));
      case 'contexts':
        return await contextsOf(context, wish.stem);
      case 'names':
        return await namesOf(context, wish);
      default:
        return never(wish);
    }
  } catch (cause) {
    if (isNetplugError(cause) || signal.aborted) return [];
    throw cause;
  }
}

async function contextsOf(context: Context, stem: string): Promise<readonly Candidate[]> {
  const source = await readKubeconfigSource(context);
  const names = source === undefined ? [] : await readContextNames(source);
  return names.map((name) => ({ word: `${stem}${name}`, about: '' }));
}

async function namesOf(
  context: Context,
  { of, stem, namespace, given }: Extract<Offer, { kind: 'names' }>,
): Promise<readonly Candidate[]> {
  const kind = visibleKind(of);
  return withStore(context, 'ask-version', async (store) => {
    const { signal } = context;
    const { items } = await listKind(store, kind, { names: [], namespace, selector: 'all()', signal });
    const names = new Set(items.map(({ metadata }) => metadata.name));
    return [...names].filter((name) => !given.includes(name)).map((name) => ({ word: `${stem}${name}`, about: '' }));
  });
}
