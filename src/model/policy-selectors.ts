import * as v from 'valibot';
import { usesGlobal } from './selector.ts';
import { parseSelector } from './selector-parser.ts';
import { SelectorText } from './spec-types.ts';

const ELSEWHERE = 'a selector without global(), which only says where a rule looks';

/** In a rule: leaving a selector out means something else there than `all()`, and so an empty one would be a riddle. */
export const RuleNamespaceSelector = v.pipe(
  v.string('a selector, as a string'),
  v.check((text) => text.trim() !== '', 'a selector such as "all()"; leave the field out when labels do not matter'),
  SelectorText,
);
export const RuleSelector = v.pipe(RuleNamespaceSelector, v.check(isWithoutGlobal, ELSEWHERE));

/** The endpoints of a policy; an empty one selects all. */
export const EndpointSelector = v.pipe(SelectorText, v.check(isWithoutGlobal, ELSEWHERE));

function isWithoutGlobal(text: string): boolean {
  const parsed = parseSelector(text);
  return 'error' in parsed || !usesGlobal(parsed.selector);
}
