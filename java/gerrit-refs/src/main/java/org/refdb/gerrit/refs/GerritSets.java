package org.refdb.gerrit.refs;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * Which sets of extensions Gerrit declares. Gerrit 3.13 asks upload-pack's initializers and has no set of them. So its
 * injector makes a new, empty one for each who asks. Guice takes no second declaration of a set, and tells nobody of the
 * first. Hence the class in which Gerrit declares its sets is looked through for the extension's name.
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
