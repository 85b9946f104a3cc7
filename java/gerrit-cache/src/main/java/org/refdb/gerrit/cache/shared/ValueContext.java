package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gerrit.common.Version;
import com.google.gerrit.server.cache.PersistentCacheDef;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.eclipse.jgit.lib.Config;

/** Says what the values of a site's caches depend on beside their keys. */
public final class ValueContext {
  /** The sections of gerrit.config from which the loaders of diffs take settings. */
  private static final List<String> DIFF_SECTIONS = List.of("core", "diff", "change", "merge");

  private final Config config;
  private final Path site;

  /** Creates the context of a site. */
  public ValueContext(Config config, Path site) {
    this.config = config;
    this.site = site;
  }

  /** Returns a hash of what the values of a cache depend on. */
  public String hash(PersistentCacheDef<?, ?> def) {
    MessageDigest digest = EntryKeys.sha256();
    of(def).forEach(part -> digest.update((part + "\n").getBytes(UTF_8)));
    return HexFormat.of().formatHex(digest.digest());
  }

  /** Returns what must be equal on two nodes so that they find each other's values of a cache. */
  List<String> of(PersistentCacheDef<?, ?> def) {
    List<String> context = new ArrayList<>();
    context.add("format " + EntryFormat.VERSION);
    context.add("version " + def.version());
    context.add(def.keyType() + " " + def.keySerializer().getClass().getName());
    context.add(def.valueType() + " " + def.valueSerializer().getClass().getName());
    context.add("Gerrit " + Version.getVersion());
    context.add("server " + config.getString("gerrit", null, "serverId"));
    if (Verdicts.of(def) != Verdict.SHARE) {
      context.add("settings " + fingerprint());
    }
    return context;
  }

  /** Returns a hash of the settings of the site that values depend on beside their keys. */
  private String fingerprint() {
    MessageDigest digest = EntryKeys.sha256();
    for (String section : DIFF_SECTIONS) {
      update(digest, section, null);
      config.getSubsections(section).forEach(subsection -> update(digest, section, subsection));
    }
    try {
      digest.update(Files.readAllBytes(site.resolve("etc").resolve("jgit.config")));
    } catch (IOException e) {
      // Most sites have no jgit.config.
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  /** Adds all values of the settings in a section, or in one of its subsections. */
  private void update(MessageDigest digest, String section, String subsection) {
    String prefix = subsection == null ? section : section + "." + subsection;
    for (String name : config.getNames(section, subsection)) {
      for (String value : config.getStringList(section, subsection, name)) {
        digest.update((prefix + "." + name + "=" + value + "\n").getBytes(UTF_8));
      }
    }
  }
}
