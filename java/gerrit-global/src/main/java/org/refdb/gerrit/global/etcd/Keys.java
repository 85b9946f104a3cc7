package org.refdb.gerrit.global.etcd;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.etcd.jetcd.ByteSequence;

/**
 * Layout of the keys. The keys of a project's refs contain the generation of the project instead of its name, so that a
 * prefix selects those of one project, even if the name of another project begins with its name.
 */
public final class Keys {
  private final String prefix;

  public Keys(String prefix) {
    this.prefix = prefix;
  }

  public ByteSequence project(String project) {
    return of("p/" + project);
  }

  public ByteSequence allProjects() {
    return of("p/");
  }

  public ByteSequence allValues() {
    return of("v/");
  }

  public ByteSequence allLocks() {
    return of("l/");
  }

  public ByteSequence value(Generation generation, String ref) {
    return of("v/" + generation.id() + '/' + ref);
  }

  public ByteSequence values(Generation generation) {
    return value(generation, "");
  }

  public ByteSequence lock(Generation generation, String ref) {
    return of("l/" + generation.id() + '/' + ref);
  }

  public ByteSequence locks(Generation generation) {
    return lock(generation, "");
  }

  public ByteSequence mark(String node, int slot) {
    return of("m/" + node + '/' + slot);
  }

  public ByteSequence marks(String node) {
    return of("m/" + node + '/');
  }

  public ByteSequence allMarks() {
    return of("m/");
  }

  public ByteSequence node(String node) {
    return of("n/" + node);
  }

  public ByteSequence removed(Generation generation) {
    return of("d/" + generation.id());
  }

  public ByteSequence allRemoved() {
    return of("d/");
  }

  public ByteSequence decider(String batch) {
    return of("b/" + batch);
  }

  public ByteSequence allDeciders() {
    return of("b/");
  }

  /** Key of one part of a staged batch, whose value lists the names of the refs in it. */
  public ByteSequence part(String batch, int part) {
    return of("c/" + batch + '/' + part);
  }

  public ByteSequence parts(String batch) {
    return of("c/" + batch + '/');
  }

  /** Removes the configured prefix from a key: intents store keys without it. */
  public String withoutPrefix(ByteSequence key) {
    return key.substring(bytes(prefix).size()).toString(UTF_8);
  }

  /** Adds the configured prefix to a key that an intent stores. */
  public ByteSequence withPrefix(String key) {
    return of(key);
  }

  /** The rest of a key after the prefix {@code keys}. */
  public static String rest(ByteSequence key, ByteSequence keys) {
    return key.substring(keys.size()).toString(UTF_8);
  }

  /** The smallest key that is greater than {@code key}. */
  public static ByteSequence after(ByteSequence key) {
    return key.concat(bytes("\0"));
  }

  private ByteSequence of(String key) {
    return bytes(prefix + key);
  }

  public static ByteSequence bytes(String text) {
    return ByteSequence.from(text, UTF_8);
  }
}
