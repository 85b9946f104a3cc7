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
import java.util.regex.Pattern;

/**
 * The folder of one cache, which contains a folder for each version. Its name is the one that the engine uses: that of
 * the cache in UTF-8, in which every byte other than ASCII letters, digits, {@code _}, {@code -} and {@code .} is
 * written as {@code %XX}, and so is a leading dot.
 */
public final class CacheFolder {
  private static final HexFormat HEX = HexFormat.of().withUpperCase();
  private static final Pattern NAME = Pattern.compile("%|([A-Za-z0-9_-]|%[0-9A-F]{2})([A-Za-z0-9_.-]|%[0-9A-F]{2})*");

  /** Paths below the folder that are refdb's: folders of versions, the engine's files in these, and notes. */
  private static final Pattern PART =
      Pattern.compile(
          "|v\\d+|v\\d+\\.[a-z.]+|v\\d+/(lock|format|format\\.tmp|promised|stats|stats\\.tmp|[0-9a-f]{16}\\.seg)");

  private static final String KEYS = "keys";
  private static final String TEXT = "text";
  private static final String BYTES = "bytes";

  private final Path path;

  private CacheFolder(Path path) {
    this.path = path;
  }

  /** Returns the folder of a cache below a root. */
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

  /** Returns all folders of caches below a root, by name. Other folders are left out. */
  public static List<CacheFolder> all(Path root) throws IOException {
    List<CacheFolder> found = new ArrayList<>();
    if (Files.isDirectory(root)) {
      try (DirectoryStream<Path> folders = Files.newDirectoryStream(root, CacheFolder::isOne)) {
        folders.forEach(folder -> found.add(new CacheFolder(folder)));
      }
    }
    found.sort((a, b) -> a.path.compareTo(b.path));
    return found;
  }

  private static boolean isOne(Path path) {
    return NAME.matcher(path.getFileName().toString()).matches() && Files.isDirectory(path);
  }

  /** Returns the path of the folder. */
  public Path path() {
    return path;
  }

  /** Returns whether a file or an empty folder is a part of the cache, to judge by its path. */
  public boolean has(Path part) {
    return part.startsWith(path) && PART.matcher(path.relativize(part).toString()).matches();
  }

  /** Returns the path of the folder of a version. */
  Path versionPath(int version) {
    return path.resolve("v" + version);
  }

  /** Returns the name of the cache. */
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

  /** Returns the version whose folder was changed last, or -1 if there is none. */
  public int version() throws IOException {
    int version = -1;
    if (!Files.isDirectory(path)) {
      return version;
    }
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

  /**
   * Records whether the keys of a version are text, for which H2 has a separate type. The folder of the cache must
   * exist.
   */
  public void noteKeys(int version, boolean text) throws IOException {
    note(version, KEYS, text ? TEXT : BYTES);
  }

  /**
   * Writes a note about a version, which replaces the one of this kind if that differs. The folder of the cache must
   * exist.
   *
   * @param kind a word that is unique for each kind of note
   */
  public void note(int version, String kind, String content) throws IOException {
    Path note = notePath(version, kind);
    if (!content.equals(read(note))) {
      Path temporary = note.resolveSibling(note.getFileName() + ".new");
      Files.deleteIfExists(temporary);
      Files.createFile(temporary, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
      Files.writeString(temporary, content);
      Files.move(temporary, note, StandardCopyOption.ATOMIC_MOVE);
    }
  }

  /** Returns the note of a kind about a version; null if there is none. */
  public String note(int version, String kind) throws IOException {
    return read(notePath(version, kind));
  }

  /** Returns whether the keys of a version are text; null if that was not recorded. */
  public Boolean hasTextKeys(int version) throws IOException {
    String content = note(version, KEYS);
    return TEXT.equals(content) ? Boolean.TRUE : BYTES.equals(content) ? Boolean.FALSE : null;
  }

  /** Returns the content of a note; null if it is not a regular file, because reading a pipe would block. */
  private static String read(Path note) throws IOException {
    return Files.isRegularFile(note) ? Files.readString(note) : null;
  }

  private Path notePath(int version, String kind) {
    return path.resolve("v" + version + "." + kind);
  }
}
