package org.refdb.it;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Git's fetch from one node's folder into another's. A ref that differs is fetched only if the other node has the
 * value that etcd had in the comparison, because an older one would rewind the ref. A ref that etcd does not have is
 * deleted.
 */
final class Mirror {
  static final List<String> PROJECTS = List.of("All-Projects", "All-Users", GlobalClients.PROJECT);
  private static final String GIT = System.getProperty("refdb.git", "git");

  private Mirror() {}

  /** Fetches the refs that differ, and returns whether the node agreed with etcd before. */
  static boolean once(GlobalNode to, GlobalNode from) throws IOException {
    return once(to, from, true);
  }

  /** Fetches the refs that differ, sequences only if {@code isAll}, and returns whether the node agreed before. */
  static boolean once(GlobalNode to, GlobalNode from, boolean isAll) throws IOException {
    boolean isSame = true;
    for (String project : PROJECTS) {
      JsonObject compared = to.compared(project);
      isSame &= compared != null && compared.get("clean").getAsBoolean();
      if (compared != null && !compared.getAsJsonArray("differences").isEmpty()) {
        fetch(to, from, project, compared, isAll);
      }
    }
    return isSame;
  }

  private static void fetch(GlobalNode to, GlobalNode from, String project, JsonObject compared, boolean isAll) throws IOException {
    Map<String, String> there = refs(from, project);
    List<String> wanted = new ArrayList<>();
    for (JsonElement element : compared.getAsJsonArray("differences")) {
      JsonObject one = element.getAsJsonObject();
      String ref = one.get("ref").getAsString();
      switch (one.get("kind").getAsString()) {
        case "ONLY_ON_DISK" -> git(to, project, "update-ref", "-d", ref, one.get("disk").getAsString());
        case "ONLY_IN_ETCD", "OTHER" -> {
          // Counters come up to date by themselves, when they are next counted up.
          boolean isCounter = ref.startsWith("refs/sequences/");
          if ((!isCounter || isAll) && one.get("etcd").getAsString().equals(there.get(ref))) {
            wanted.add("+" + ref + ":" + ref);
          }
        }
        default -> {
          // The ref was being changed: the next call looks again.
        }
      }
    }
    if (!wanted.isEmpty()) {
      fetch(to, from, project, wanted);
    }
  }

  /** Fetches patch sets, which etcd does not decide about, because they never change. */
  static void patchSets(GlobalNode to, GlobalNode from) throws IOException {
    Commands.Output said =
        fetch(to, from, GlobalClients.PROJECT, List.of("refs/changes/*:refs/changes/*", "^refs/changes/*/meta"));
    if (said.status() != 0) {
      throw new AssertionError(said.text());
    }
  }

  private static Commands.Output fetch(GlobalNode to, GlobalNode from, String project, List<String> refs) throws IOException {
    List<String> words =
        new ArrayList<>(
            List.of(
                "-c", "gc.auto=0", "-c", "maintenance.auto=false", "fetch", "-q", "--no-tags", "--no-write-fetch-head",
                from.repository(project).toString()));
    words.addAll(refs);
    return git(to, project, words.toArray(String[]::new));
  }

  /** Runs git, which may fail because a ref is locked or has moved. */
  private static Commands.Output git(GlobalNode node, String project, String... words) throws IOException {
    List<String> command = new ArrayList<>(List.of(GIT, "--git-dir=" + node.repository(project)));
    command.addAll(List.of(words));
    return Commands.attempt(node.repository(project), command.toArray(String[]::new));
  }

  /** The refs as git sees them. */
  static Map<String, String> refs(GlobalNode node, String project) throws IOException {
    Map<String, String> refs = new HashMap<>();
    for (String line : git(node, project, "for-each-ref", "--format=%(refname) %(objectname)").text().lines().toList()) {
      String[] words = line.split(" ");
      if (words.length == 2) {
        refs.put(words[0], words[1]);
      }
    }
    return refs;
  }

  /** Requires that {@code git fsck} finds all objects that the refs need. */
  static void check(GlobalNode node, String project) throws IOException {
    Commands.Output said = git(node, project, "fsck", "--connectivity-only", "--no-dangling");
    if (said.status() != 0) {
      throw new AssertionError(node.name() + ": " + said.text());
    }
  }
}
