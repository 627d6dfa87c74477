import { NetplugError } from '../base/errors.ts';
import type { SourceCheck } from '../dataplane/kernel.ts';

/** Reads which packets of a pod are dropped for their source, by NETPLUG_POD_SOURCE_CHECK. @throws cni/env-invalid */
export function sourceCheckIn(env: NodeJS.ProcessEnv): SourceCheck {
  return wordIn(env, 'NETPLUG_POD_SOURCE_CHECK', ['strict', 'off']);
}

/** Returns one of the words; the first when the variable is not set. @throws cni/env-invalid */
export function wordIn<const W extends string>(env: NodeJS.ProcessEnv, name: string, words: readonly [W, ...W[]]): W {
  const text = env[name] ?? words[0];
  const word = words.find((each) => each === text);
  if (word !== undefined) return word;
  throw new NetplugError('cni/env-invalid', `Cannot keep the network of the node: ${name} is ${JSON.stringify(text)}`, {
    hint: `Set it to ${words.map((each) => `"${each}"`).join(' or ')}, or leave it out`,
  });
}
