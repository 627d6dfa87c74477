import {
  Document,
  type CreateNodeOptions,
  type DocumentOptions,
  type SchemaOptions,
  type ToStringOptions,
  visit,
} from 'yaml';
import { isSteering } from './visible-text.ts';

type Options = DocumentOptions & SchemaOptions & CreateNodeOptions & ToStringOptions;

/**
 * Returns a value as YAML. Texts with characters that steer a terminal are in quotes and escaped, so that they keep their
 * value whatever shows them.
 */
export function yamlText(value: unknown, options: Options = {}): string {
  const document = new Document(value, options);
  let isPlain = true;
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value !== 'string' || !isSteering(node.value)) return;
      node.type = 'QUOTE_DOUBLE';
      isPlain = false;
    },
  });
  const text = document.toString({ lineWidth: 0, ...options });
  return isPlain ? text : text.replaceAll(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped);
}

/** YAML has no pairs: a character beyond 16 bits has an escape of its own. */
function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}
