/**
 * That what goes over the wire is here as docs/openapi.json says it; the compiler is the judge.
 *
 * `cargo xtask web` makes types out of the document, for the page. Here, names may be in camel case,
 * members read-only, and a type may have members of any name beside those that are known. Otherwise
 * both have the same members, required or optional, of the same types.
 */

import type {
  Found,
  History,
  Hit,
  ListOptions,
  Message,
  Note,
  Repair,
  SearchOptions,
  SessionDescription,
  SessionListEntry,
  Sessions,
  SessionSummaryEntry,
  UnforgetErrorCode,
} from 'unforget';

import type { components, operations } from '../../web/src/openapi.js';
import type { Page, WireKey } from '../dist/wire.js';

type Schemas = components['schemas'];
type Queries<Name extends keyof operations> = NonNullable<operations[Name]['parameters']['query']>;

type Snake<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : Name;
/** The name of a member as the wire has it; none for members that may have any name. */
type Named<Name> = string extends Name ? never : number extends Name ? never : Snake<Name>;
type Members<T> = { -readonly [Name in keyof T as Named<Name>]: Plain<Exclude<T[Name], undefined>> };

/** A type as JSON has it. A time may be a `Date` here, and of an object nothing may be known. */
type Plain<T> = unknown extends T
  ? 'anything'
  : T extends Date
    ? never
    : T extends readonly unknown[]
      ? { -readonly [At in keyof T]: Plain<T[At]> }
      : T extends object
        ? [keyof Members<T>] extends [never]
          ? 'anything'
          : Members<T>
        : T;

type IsSame<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Part<T, Name> = Name extends keyof T ? Pick<T, Name> : 'missing';

/** The names of the members in which two types differ. */
type Differing<Ours, Theirs, A = Plain<Ours>, B = Plain<Theirs>> = {
  [Name in keyof A | keyof B]-?: IsSame<Part<A, Name>, Part<B, Name>> extends true ? never : Name;
}[keyof A | keyof B];

/** Is an error that names what is left. */
type Nothing<Left extends never> = Left;

type Literal<Text> = Text extends string ? (string extends Text ? never : Text) : never;
type OwnCode = 'missing_program' | 'protocol' | 'lost' | 'closed';
type ServerCode = Schemas['Problem']['error']['code'];

/** What is answered. */
export type Answers = [
  Nothing<Differing<SessionDescription, Schemas['Session']>>,
  Nothing<Differing<Hit, Schemas['Hit']>>,
  Nothing<Differing<Found, Schemas['Hits']>>,
  Nothing<Differing<Message, Schemas['Message']>>,
  Nothing<Differing<Repair, Schemas['Repair']>>,
  Nothing<Differing<Note, Schemas['Note']>>,
  Nothing<Differing<History, Schemas['Messages']>>,
  Nothing<Differing<Awaited<ReturnType<Sessions['append']>>, Schemas['Added']>>,
  Nothing<Differing<SessionListEntry, Schemas['EntriesSession']>>,
  Nothing<Differing<SessionSummaryEntry, Schemas['EntriesSummary']>>,
  Nothing<Differing<Page, Schemas['EntriesRead']>>,
];

/** What is asked. Pages, and the words of a search, are not for options. */
export type Requests = [
  Nothing<Differing<ListOptions, Omit<Queries<'listSessions'>, 'cursor'>>>,
  Nothing<Differing<SearchOptions, Omit<Queries<'search'>, 'q'>>>,
  Nothing<Differing<WireKey, { [Name in keyof Schemas['EntriesKey']]: Exclude<Schemas['EntriesKey'][Name], null> }>>,
];

/** Why something failed: what a server says, and what this package says itself. */
export type Codes = [
  Nothing<Exclude<Literal<UnforgetErrorCode>, ServerCode | OwnCode>>,
  Nothing<Exclude<ServerCode | OwnCode, Literal<UnforgetErrorCode>>>,
];
