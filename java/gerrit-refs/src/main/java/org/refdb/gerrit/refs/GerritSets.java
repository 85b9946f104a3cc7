package org.refdb.gerrit.refs;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * Finds out which sets of extensions Gerrit declares. Gerrit 3.13 consults the initializers of upload-pack but declares
 * no set of them, so that its injector creates a new, empty set for each consumer. Guice rejects a second declaration
 * of a set and does not reveal the first, so this searches the class in which Gerrit declares its sets for the
 * extension's name.
 */
final class GerritSets {
  private static final String DECLARING = "com/google/gerrit/server/config/GerritGlobalModule.class";

  private GerritSets() {}

  static boolean declares(Class<?> extension) {
    try (InputStream in = extension.getClassLoader().getResourceAsStream(DECLARING)) {
      return in != null && names(in.readAllBytes(), extension);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read " + DECLARING, e);
    }
  }

  private static boolean names(byte[] code, Class<?> extension) {
    return new String(code, StandardCharsets.ISO_8859_1).contains(extension.getName().replace('.', '/'));
  }
}
