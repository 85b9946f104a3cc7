package org.refdb.gerrit.cache.store;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * The folder of one cache, which has a folder for each version. Its name is the engine's. A character that is no
 * letter, digit, {@code _}, {@code -} or {@code .} is written {@code %XX}. So is a leading dot.
 */
public final class CacheFolder {
  private static final HexFormat HEX = HexFormat.of().withUpperCase();
  private static final String TEXT = "text";
  private static final String BYTES = "bytes";

  private final Path path;

  private CacheFolder(Path path) {
    this.path = path;
  }

  /** The folder of a cache below a root. */
  public static CacheFolder of(Path root, String cache) {
    StringBuilder name = new StringBuilder();
    for (byte b : cache.getBytes(StandardCharsets.UTF_8)) {
      boolean plain = b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
          || b == '.' && !name.isEmpty();
      if (plain) {
        name.append((char) b);
      } else {
        name.append('%').append(HEX.toHexDigits(b));
      }
    }
    return new CacheFolder(root.resolve(name.isEmpty() ? "%" : name.toString()));
  }

  /** All below a root, by name. */
  public static List<CacheFolder> all(Path root) throws IOException {
    List<CacheFolder> found = new ArrayList<>();
    if (Files.isDirectory(root)) {
      try (DirectoryStream<Path> folders = Files.newDirectoryStream(root, Files::isDirectory)) {
        folders.forEach(folder -> found.add(new CacheFolder(folder)));
      }
    }
    found.sort((a, b) -> a.path.compareTo(b.path));
    return found;
  }

  /** Where it is. */
  public Path path() {
    return path;
  }

  /** The cache's name. */
  public String cache() {
    String name = path.getFileName().toString();
    byte[] bytes = new byte[name.length()];
    int length = 0;
    for (int i = 0; i < name.length(); i++) {
      if (name.charAt(i) == '%' && i + 2 < name.length()) {
        bytes[length++] = (byte) HexFormat.fromHexDigits(name, i + 1, i + 3);
        i += 2;
      } else if (name.charAt(i) != '%') {
        bytes[length++] = (byte) name.charAt(i);
      }
    }
    return new String(bytes, 0, length, StandardCharsets.UTF_8);
  }

  /** The version that was written last, or -1 if it has none. */
  public int version() throws IOException {
    int version = -1;
    long newest = Long.MIN_VALUE;
    try (DirectoryStream<Path> folders = Files.newDirectoryStream(path, "v*")) {
      for (Path folder : folders) {
        String digits = folder.getFileName().toString().substring(1);
        if (digits.matches("\\d{1,9}") && Files.isRegularFile(folder.resolve("format"))) {
          long modified = Files.getLastModifiedTime(folder).toMillis();
          if (modified > newest || modified == newest && Integer.parseInt(digits) > version) {
            newest = modified;
            version = Integer.parseInt(digits);
          }
        }
      }
    }
    return version;
  }

  /** Notes whether a version's keys are text, which H2 has a type of its own for. The version's folder must be there. */
  public void noteKeys(int version, boolean text) throws IOException {
    Path note = note(version);
    String content = text ? TEXT : BYTES;
    if (!content.equals(read(note))) {
      Path temporary = note.resolveSibling(note.getFileName() + ".new");
      Files.deleteIfExists(temporary);
      Files.createFile(temporary, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
      Files.writeString(temporary, content);
      Files.move(temporary, note, StandardCopyOption.ATOMIC_MOVE);
    }
  }

  /** Whether a version's keys are text; null if nobody noted it. */
  public Boolean hasTextKeys(int version) throws IOException {
    String content = read(note(version));
    return TEXT.equals(content) ? Boolean.TRUE : BYTES.equals(content) ? Boolean.FALSE : null;
  }

  /** What a note says; null if there is none. A pipe in its place would wait for somebody who writes to it. */
  private static String read(Path note) throws IOException {
    return Files.isRegularFile(note) ? Files.readString(note) : null;
  }

  private Path note(int version) {
    return path.resolve("v" + version + ".keys");
  }
}
