// Divides the specification into numbered sentences, so that docs/spec-map.md can name each of them without a copy.
import { createHash } from 'node:crypto';

/** A sentence, a row of a table, or an item of a list. */
export interface Sentence {
  /** Section and number of the sentence in it, such as `2.3.7`: the seventh of the third subsection of section 2. */
  readonly place: string;
  /** Changes with the words of the sentence. */
  readonly hash: string;
  readonly text: string;
}

/** Returns every sentence in order. Headings and the first rows of tables are none. */
export function sentencesOf(specification: string): readonly Sentence[] {
  const sentences: Sentence[] = [];
  let [section, subsection, count] = [0, 0, 0];
  for (const { kind, text } of blocksOf(specification)) {
    if (kind === 'heading') {
      [section, subsection] = text.startsWith('###') ? [section, subsection + 1] : [section + 1, 0];
      count = 0;
      continue;
    }
    for (const sentence of kind === 'row' ? [text] : splitProse(text)) {
      count += 1;
      const place = [section, subsection, count].join('.');
      sentences.push({ place, hash: hashOf(sentence), text: sentence });
    }
  }
  return sentences;
}

interface Block {
  readonly kind: 'heading' | 'row' | 'prose';
  readonly text: string;
}

function blocksOf(specification: string): readonly Block[] {
  const blocks: Block[] = [];
  let prose: string[] = [];
  const endProse = (): void => {
    if (prose.length > 0) blocks.push({ kind: 'prose', text: prose.join(' ') });
    prose = [];
  };
  const lines = specification.split('\n').map((line) => line.trim());
  for (const [index, line] of lines.entries()) {
    const isItem = /^([-*]|\d+\.) /.test(line);
    if (line === '' || line.startsWith('#') || line.startsWith('|') || isItem) endProse();
    if (line.startsWith('##')) blocks.push({ kind: 'heading', text: line });
    else if (line.startsWith('|') && !isDelimiter(line) && !isDelimiter(lines[index + 1])) {
      blocks.push({ kind: 'row', text: line });
    } else if (line !== '' && !/^[#|]/.test(line)) prose.push(isItem ? line.replace(/^\S+ /, '') : line);
  }
  endProse();
  return blocks;
}

function isDelimiter(line: string | undefined): boolean {
  return /^\|[\s:|-]+\|$/.test(line ?? '');
}

/** Ends a sentence at a full stop that a space and a capital, a back-quote or a bracket follow. */
function splitProse(text: string): readonly string[] {
  return text.split(/(?<=[.!?]\)?) (?=[A-Z`(])/);
}

function hashOf(sentence: string): string {
  return createHash('sha256').update(sentence.replaceAll(/\s+/g, ' ')).digest('hex').slice(0, 6);
}
