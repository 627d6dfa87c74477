type Check = (value: unknown, path: string) => string[];
type Raw = Readonly<Record<string, unknown>>;

/**
 * What the standard (SARIF 2.1.0, OASIS) requires of the objects that we write: the required properties, the types of
 * the others, and the rules of its text that join them. Properties that we do not write are refused.
 */
export function checkSarif(log: unknown): string[] {
  return LOG(log, '');
}

const text: Check = (value, path) => (typeof value === 'string' && value !== '' ? [] : [`${path}: no text`]);
const fromOne: Check = (value, path) => (Number.isInteger(value) && Number(value) >= 1 ? [] : [`${path}: not from 1`]);
const fromZero: Check = (value, path) => (Number.isInteger(value) && Number(value) >= 0 ? [] : [`${path}: not from 0`]);
const URI: Check = (value, path) =>
  typeof value === 'string' && URL.canParse(value, 'file:///') && !/[\s"<>\\^`{|}]/.test(value)
    ? []
    : [`${path}: no URI`];

const MESSAGE = object({ text }, { markdown: text });
const ARTIFACT = object({ uri: URI });
const REGION: Check = (value, path) => [
  ...object(
    {},
    {
      startLine: fromOne,
      startColumn: fromOne,
      endLine: fromOne,
      endColumn: fromOne,
      charOffset: fromZero,
      charLength: fromZero,
    },
  )(value, path),
  ...orderOf(value as Raw, path),
];
const REPLACEMENT = object({ deletedRegion: REGION }, { insertedContent: object({ text }) });
const CHANGE = object({ artifactLocation: ARTIFACT, replacements: list(REPLACEMENT, 1) });
const FIX = object({ artifactChanges: list(CHANGE, 1) }, { description: MESSAGE });
const LOCATION = object({ physicalLocation: object({ artifactLocation: ARTIFACT, region: REGION }) });
const RESULT = object(
  { message: MESSAGE },
  {
    ruleId: text,
    ruleIndex: fromZero,
    level: oneOf('none', 'note', 'warning', 'error'),
    locations: list(LOCATION),
    fixes: list(FIX),
  },
);
const RULE = object({ id: text }, { shortDescription: MESSAGE, help: MESSAGE });
const DRIVER = object({ name: text }, { semanticVersion: semver, rules: list(RULE) });
const RUN: Check = (value, path) => [
  ...object(
    { tool: object({ driver: DRIVER }) },
    { columnKind: oneOf('utf16CodeUnits', 'unicodeCodePoints'), results: list(RESULT) },
  )(value, path),
  ...rulesOf(value as Raw, path),
];
const LOG = object({ version: oneOf('2.1.0'), runs: list(RUN) }, { $schema: URI });

function object(required: Readonly<Record<string, Check>>, optional: Readonly<Record<string, Check>> = {}): Check {
  return (value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${path}: no object`];
    const raw = value as Raw;
    const missing = Object.keys(required).filter((key) => raw[key] === undefined);
    const known = { ...required, ...optional };
    return [
      ...missing.map((key) => `${path}.${key}: missing`),
      ...Object.entries(raw).flatMap(
        ([key, each]) => known[key]?.(each, path === '' ? key : `${path}.${key}`) ?? [`${path}.${key}: unknown`],
      ),
    ];
  };
}

function list(item: Check, atLeast = 0): Check {
  return (value, path) => {
    if (!Array.isArray(value) || value.length < atLeast) return [`${path}: no list of ${String(atLeast)}`];
    return value.flatMap((each, index) => item(each, `${path}[${String(index)}]`));
  };
}

function oneOf(...words: readonly string[]): Check {
  return (value, path) => (words.includes(String(value)) ? [] : [`${path}: not ${words.join(', ')}`]);
}

function semver(value: unknown, path: string): string[] {
  return /^\d+\.\d+\.\d+$/.test(String(value)) ? [] : [`${path}: no version`];
}

function orderOf({ startLine, startColumn, endLine, endColumn, charOffset }: Raw, path: string): string[] {
  if (startLine === undefined) return charOffset === undefined ? [`${path}: nowhere`] : [];
  const isBackwards =
    Number(endLine) < Number(startLine) || (endLine === startLine && Number(endColumn) < Number(startColumn));
  return isBackwards ? [`${path}: ends before it starts`] : [];
}

/** Every result names a rule by its id and by its place in the list, and both mean the same. */
function rulesOf(run: Raw, path: string): string[] {
  const { tool, results } = run as {
    tool: { driver: { rules: { id: string }[] } };
    results: { ruleId: string; ruleIndex: number }[];
  };
  const ids = tool.driver.rules.map(({ id }) => id);
  const wrong = results
    .filter(({ ruleId, ruleIndex }) => ids[ruleIndex] !== ruleId)
    .map(({ ruleId }) => `${path}: ${ruleId}`);
  return new Set(ids).size === ids.length ? wrong : [...wrong, `${path}: a rule twice`];
}
