"""The types of answers, for the OpenAPI document and its readers: one file for each noun."""
