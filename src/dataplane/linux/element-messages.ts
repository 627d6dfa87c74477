import { slicesOf } from '../../base/slices.ts';
import type { FilterSet } from '../policy-filter.ts';
import type { Message } from './netlink.ts';
import { elementList, mostInList } from './nft-elements.ts';
import { addElements, deleteElements } from './nft-messages.ts';

interface SetElements {
  readonly set: FilterSet;
  readonly texts: readonly string[];
}

/** Returns messages that add the elements to the set of that name. */
export function additions(table: string, name: string, elements: SetElements): readonly Message[] {
  return lateMessages(elements, (list) => addElements(table, name, { elements: list }));
}

/** Returns messages that delete the elements. */
export function removals(table: string, name: string, elements: SetElements): readonly Message[] {
  return lateMessages(elements, (list) => deleteElements(table, name, { elements: list }));
}

/** The messages are encoded when their bodies are read, one by one as they are sent: those of a large set take long together. */
function lateMessages({ set, texts }: SetElements, encode: (list: Buffer) => Message): readonly Message[] {
  const { type, flags } = encode(Buffer.alloc(0));
  return slicesOf(texts, mostInList(set)).map((some) => ({
    type,
    flags,
    get body() {
      return encode(elementList(set, some)).body;
    },
  }));
}
