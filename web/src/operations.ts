// What the server's document says of an operation, found by its method and its path: its query, its
// body and its answer. Types alone; `openapi.d.ts` is made out of docs/openapi.json.
import type { components, paths } from "./openapi";

export type Schemas = components["schemas"];

/** A path as the page writes it: the id is in its place. */
type Written<Path> = Path extends `${infer Before}{id}${infer After}` ? `${Before}${string}${After}` : Path;

/** The path in the document that is written like this. */
type Documented<Path extends string> = { [Known in keyof paths]: [`/v1${Path}`, Written<Known>] extends [Written<Known>, `/v1${Path}`] ? Known : never }[keyof paths];

/** `never` if the document has no such operation. */
export type Operation<Method extends string, Path extends string> = NonNullable<paths[Documented<Path>][Lowercase<Method> & keyof paths[Documented<Path>]]>;

/** A word may be a number; what is empty is not asked. */
type Asked<Value> = Value | (string extends Value ? number : never) | "" | null | undefined;

export type Query<Of> = Of extends { parameters: { query?: never } }
  ? Record<string, never>
  : Of extends { parameters: { query?: infer Members } }
    ? { [Name in keyof Members]?: Asked<Members[Name]> }
    : never;

interface Json<Members> {
  content: { "application/json": Members };
}

export type Body<Of> = Of extends { requestBody?: never } ? undefined : Of extends { requestBody?: Json<infer Members> } ? Members : undefined;

export type Answer<Of> = [Of] extends [{ responses: infer All }]
  ? [Of] extends [never]
    ? "an operation that docs/openapi.json does not have"
    : All[keyof All] extends Json<infer Members>
      ? Members
      : undefined
  : never;

/** One of several shapes, of which each member can be looked at: those of the others are not there. */
export type OneOf<Shapes, All = Shapes> = Shapes extends unknown ? Shapes & { [Name in Exclude<All extends unknown ? keyof All : never, keyof Shapes>]?: never } : never;
