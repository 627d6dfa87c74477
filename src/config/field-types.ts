import * as v from 'valibot';
import { isEndpointUrl, isHttpUrl, URL_RULE } from './url.ts';

/**
 * Building blocks of the field tables. Messages complete "allowed is …". An empty string is the same as leaving the
 * option out: templates fill in "" for what is not used.
 */
export const OptionalText = v.optional(v.pipe(v.string('a string'), v.transform(emptyIsAbsent)));

export const AbsolutePath = v.optional(
  v.pipe(
    v.string('a string'),
    v.check((path) => path === '' || path.startsWith('/'), 'an absolute path'),
    v.transform(emptyIsAbsent),
  ),
);

/** The string "true" or "false". */
export const YesNo = v.pipe(
  v.picklist(['true', 'false'], 'the string "true" or the string "false"'),
  v.transform((word) => word === 'true'),
);

export function yesOrNo(byDefault: boolean): v.OptionalSchema<v.BooleanSchema<string>, boolean> {
  return v.optional(v.boolean('true or false, without quotes'), byDefault);
}

export function wholeNumberField(
  range: { min: number; max: number },
  allowed: string,
): v.SchemaWithPipe<
  readonly [
    v.NumberSchema<string>,
    v.IntegerAction<number, string>,
    v.MinValueAction<number, number, string>,
    v.MaxValueAction<number, number, string>,
  ]
> {
  return v.pipe(v.number(allowed), v.integer(allowed), v.minValue(range.min, allowed), v.maxValue(range.max, allowed));
}

export const HttpUrl = v.pipe(v.string(URL_RULE), v.check(isHttpUrl, URL_RULE));

export const OptionalHttpUrl = v.optional(
  v.pipe(
    v.string(URL_RULE),
    v.check((text) => text === '' || isHttpUrl(text), URL_RULE),
    v.transform(emptyIsAbsent),
  ),
);

/** One string with several URLs; every invalid one is reported. */
export const EndpointList = v.optional(
  v.pipe(
    v.string('a string of comma-separated URLs'),
    v.rawTransform(({ dataset, addIssue }) => {
      if (dataset.value.trim() === '') return undefined;
      const urls = dataset.value.split(',').map((url) => url.trim());
      for (const [index, input] of urls.entries()) {
        if (isEndpointUrl(input)) continue;
        const message = `${URL_RULE}, with nothing behind host and port (URL ${String(index + 1)} of the list)`;
        addIssue({ input, message });
      }
      return urls.map((url) => url.replace(/\/$/, ''));
    }),
  ),
);

/** A name that is allowed in a datastore key and in a label. */
export const NodeNameText = v.optional(
  v.pipe(
    v.string('a string'),
    v.check((name) => name === '' || /^[^\s/]+$/.test(name), 'a node name without white space and "/"'),
    v.transform(emptyIsAbsent),
  ),
);

function emptyIsAbsent(text: string): string | undefined {
  return text.trim() === '' ? undefined : text;
}
