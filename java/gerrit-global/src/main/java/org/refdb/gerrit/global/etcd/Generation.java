package org.refdb.gerrit.global.etcd;

import java.security.SecureRandom;
import java.util.Base64;

/**
 * One life of a project, from its creation to its removal: a later project of the same name has another generation.
 *
 * @param id 16 random characters, which no other generation has
 * @param imported whether all refs of the project are in etcd, so that a ref without a value does not exist
 */
public record Generation(String id, boolean imported) {
  private static final SecureRandom RANDOM = new SecureRandom();
  private static final int ID_LENGTH = 16;
  private static final String IMPORTED = " imported";

  public Generation {
    if (id.length() != ID_LENGTH || id.indexOf('/') >= 0) {
      throw new IllegalArgumentException("not a generation: " + id);
    }
  }

  public static Generation random() {
    byte[] bytes = new byte[ID_LENGTH * 3 / 4];
    RANDOM.nextBytes(bytes);
    return new Generation(Base64.getUrlEncoder().withoutPadding().encodeToString(bytes), false);
  }

  public static Generation parse(String text) throws GlobalRefException {
    boolean imported = text.endsWith(IMPORTED);
    try {
      return new Generation(imported ? text.substring(0, text.length() - IMPORTED.length()) : text, imported);
    } catch (IllegalArgumentException e) {
      throw new GlobalRefException(
          "etcd has \"" + text + "\" for a project's generation, which is not in refdb's format", e);
    }
  }

  public String text() {
    return imported ? id + IMPORTED : id;
  }
}
