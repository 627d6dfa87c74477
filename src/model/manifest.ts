/** One object of the API, as `kubectl apply` takes it. */
export type Manifest = Readonly<Record<string, unknown>>;
