import * as v from 'valibot';
import { usesGlobal } from './selector.ts';
import { parseSelector } from './selector-parser.ts';
import { SelectorText } from './spec-types.ts';

const WITHOUT_GLOBAL = 'a selector without global(), which is allowed only in namespaceSelector of a rule';

/** A selector in a rule. It must not be empty, because leaving it out has a different meaning than `all()`. */
export const RuleNamespaceSelector = v.pipe(
  v.string('a selector, as a string'),
  v.check((text) => text.trim() !== '', 'a selector such as "all()"; leave the field out when labels do not matter'),
  SelectorText,
);
export const RuleSelector = v.pipe(RuleNamespaceSelector, v.check(isWithoutGlobal, WITHOUT_GLOBAL));

/** The selector of a policy; an empty one selects all endpoints. */
export const EndpointSelector = v.pipe(SelectorText, v.check(isWithoutGlobal, WITHOUT_GLOBAL));

function isWithoutGlobal(text: string): boolean {
  const parsed = parseSelector(text);
  return 'error' in parsed || !usesGlobal(parsed.selector);
}
