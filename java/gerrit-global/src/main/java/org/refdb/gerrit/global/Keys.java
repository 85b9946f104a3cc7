package org.refdb.gerrit.global;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.etcd.jetcd.ByteSequence;

/** How keys are called. No project's keys are a prefix of another's: those of refs have its generation, not its name. */
final class Keys {
  private final String prefix;

  Keys(String prefix) {
    this.prefix = prefix;
  }

  ByteSequence project(String project) {
    return of("p/" + project);
  }

  ByteSequence allProjects() {
    return of("p/");
  }

  ByteSequence allValues() {
    return of("v/");
  }

  ByteSequence allLocks() {
    return of("l/");
  }

  ByteSequence value(Generation generation, String ref) {
    return of("v/" + generation.id() + '/' + ref);
  }

  ByteSequence values(Generation generation) {
    return value(generation, "");
  }

  ByteSequence lock(Generation generation, String ref) {
    return of("l/" + generation.id() + '/' + ref);
  }

  ByteSequence locks(Generation generation) {
    return lock(generation, "");
  }

  ByteSequence mark(String node, int slot) {
    return of("m/" + node + '/' + slot);
  }

  ByteSequence marks(String node) {
    return of("m/" + node + '/');
  }

  ByteSequence allMarks() {
    return of("m/");
  }

  ByteSequence node(String node) {
    return of("n/" + node);
  }

  ByteSequence removed(Generation generation) {
    return of("d/" + generation.id());
  }

  ByteSequence allRemoved() {
    return of("d/");
  }

  ByteSequence decider(Decider decider) {
    return of("b/" + decider.text());
  }

  ByteSequence allDeciders() {
    return of("b/");
  }

  /** The names of the refs of one part of a staged batch. */
  ByteSequence part(Decider decider, int part) {
    return of("c/" + decider.text() + '/' + part);
  }

  ByteSequence parts(Decider decider) {
    return of("c/" + decider.text() + '/');
  }

  /** A key as intents keep it. */
  String withoutPrefix(ByteSequence key) {
    return key.substring(bytes(prefix).size()).toString(UTF_8);
  }

  /** The key that an intent keeps. */
  ByteSequence withPrefix(String key) {
    return of(key);
  }

  /** What follows the prefix of some keys in one of them. */
  static String rest(ByteSequence key, ByteSequence keys) {
    return key.substring(keys.size()).toString(UTF_8);
  }

  /** The first key that comes after another. */
  static ByteSequence after(ByteSequence key) {
    return key.concat(bytes("\0"));
  }

  private ByteSequence of(String key) {
    return bytes(prefix + key);
  }

  static ByteSequence bytes(String text) {
    return ByteSequence.from(text, UTF_8);
  }
}
